#include <algorithm>
#include <charconv>
#include <filesystem>

#include "tools/cli/common.h"

namespace fold8::cli {
namespace {

class AtMost : public quant::SampleSource {
 public:
  AtMost(quant::SampleSource& all, std::size_t limit) : all_(all), limit_(limit) {}
  std::size_t count() const override {
    return limit_ == 0 ? all_.count() : std::min(limit_, all_.count());
  }
  Result<std::vector<Tensor>> sample(std::size_t i) override { return all_.sample(i); }
  std::string describe(std::size_t i) const override { return all_.describe(i); }

 private:
  quant::SampleSource& all_;
  std::size_t limit_;
};

// "224" or "224x320".
Status parse_size(const std::string& text, data::PictureOptions& picture) {
  if (text.empty()) return ok_status();
  const char* end = text.data() + text.size();
  auto first = std::from_chars(text.data(), end, picture.height);
  picture.width = picture.height;
  if (first.ec == std::errc() && first.ptr != end && *first.ptr == 'x')
    first = std::from_chars(first.ptr + 1, end, picture.width);
  if (first.ec != std::errc() || first.ptr != end || picture.height < 1 || picture.width < 1)
    return invalid_argument("--size " + text + ": expected 224 or HEIGHTxWIDTH");
  return ok_status();
}

// A size that the model's own, fixed one overrules would be ignored in silence.
Status check_size(const data::PictureOptions& picture, const graph::Graph& g) {
  if (picture.height == 0 || g.inputs.size() != 1) return ok_status();
  const Shape& s = g.type(g.inputs[0]).shape;
  if (s.rank() != 4) return ok_status();
  const int rows = picture.channels_last ? 1 : 2;
  if ((s[rows].known() && s[rows].value() != picture.height) ||
      (s[rows + 1].known() && s[rows + 1].value() != picture.width))
    return invalid_argument("--size " + std::to_string(picture.height) + "x" +
                            std::to_string(picture.width) + ": the model's input '" +
                            g.value(g.inputs[0]).name + "' is " + to_string(s, g.symbols) +
                            "; leave --size out");
  return ok_status();
}

}  // namespace

void add_data_options(CLI::App& app, DataArgs& o, const std::string& flag, const std::string& help,
                      bool required) {
  auto* data = app.add_option(flag, o.data, help);
  if (required) data->required();
  std::vector<CLI::Option*> options;
  options.push_back(
      app.add_flag("--stacked", o.stacked, "Axis 0 of each array counts the samples"));
  options.push_back(app.add_option("--mean", o.mean,
                                   "Images: mean per channel, in the units of the pixels (0..255)")
                        ->delimiter(','));
  options.push_back(app.add_option("--std", o.std,
                                   "Images: standard deviation per channel, in the units of the "
                                   "pixels")
                        ->delimiter(','));
  options.push_back(app.add_option("--size", o.size,
                                   "Images: 224 or HEIGHTxWIDTH (default: as the model's input)"));
  options.push_back(
      app.add_option("--layout", o.layout, "Images: nchw or nhwc")->capture_default_str());
  options.push_back(
      app.add_option("--random-samples", o.random_samples, "How many samples 'random' makes")
          ->check(CLI::Range(1, 1000000))
          ->capture_default_str());
  options.push_back(
      app.add_option("--max-samples", o.max_samples, "Use at most so many samples (0: all)")
          ->capture_default_str());
  // At once, in the order of the command line: --recalib forgets those before it.
  for (CLI::Option* option : options) option->trigger_on_parse();
}

void add_recalib_option(CLI::App& app, DataArgs& o) {
  app.add_option_function<std::vector<std::string>>(
         "--recalib",
         [&o](const std::vector<std::string>& paths) {
           DataArgs fresh;
           fresh.data = std::move(o.data);
           fresh.again = paths;
           o = std::move(fresh);
         },
         "Calibration data in place of that of --calib and --stats, read as the options behind it "
         "say: for fixes that `fold8 report` names")
      ->trigger_on_parse();
}

std::vector<std::string> named_files(const std::string& argument) {
  std::error_code error;
  if (std::filesystem::exists(argument, error)) return {argument};
  std::vector<std::string> files;
  for (std::size_t i = argument.find('='); i != std::string::npos; i = argument.find('=', i + 1))
    if (std::filesystem::exists(argument.substr(i + 1), error))
      files.push_back(argument.substr(i + 1));
  return files;
}

std::vector<std::string> with_data(std::vector<std::string> inputs, const DataArgs& args) {
  std::vector<std::string> paths;
  for (const auto* given : {&args.data, &args.again})
    for (const std::string& item : *given)
      for (std::string& path : named_files(item)) paths.push_back(std::move(path));
  for (std::string& file : data::files_of(paths)) inputs.push_back(std::move(file));
  return inputs;
}

void add_threads_option(CLI::App& app, int& threads) {
  app.add_option("--threads", threads, "Threads (0: all CPUs this process may use)")
      ->capture_default_str()
      ->check(CLI::Range(0, 1024));
}

Result<OpenedData> open_data(const DataArgs& args, const graph::Graph& g) {
  data::DataOptions o;
  o.paths = args.paths();
  o.stacked = args.stacked;
  o.random_samples = args.random_samples;
  o.picture.mean = args.mean;
  o.picture.std = args.std;
  if (args.layout != "nchw" && args.layout != "nhwc")
    return invalid_argument("--layout " + args.layout + ": expected nchw or nhwc");
  o.picture.channels_last = args.layout == "nhwc";
  FOLD8_CHECK_OK(parse_size(args.size, o.picture));
  FOLD8_CHECK_OK(check_size(o.picture, g));
  OpenedData opened;
  FOLD8_TRY(opened.all, data::open_samples(o, g));
  opened.source = std::make_unique<AtMost>(*opened.all, args.max_samples);
  return opened;
}

}  // namespace fold8::cli
