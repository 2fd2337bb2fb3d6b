#include <fmt/format.h>

#include <chrono>
#include <filesystem>

#include "fusion/convert.h"
#include "quant/cause_text.h"
#include "runtime/core/parallel.h"
#include "runtime/format/f8.h"
#include "tools/cli/advise.h"
#include "tools/cli/common.h"
#include "tools/cli/facts_json.h"
#include "tools/cli/network_args.h"
#include "tools/cli/prefer.h"
#include "tools/cli/reestimated.h"
#include "tools/cli/search.h"
#include "tools/cli/smoothing.h"
#include "tools/cli/statistics_file.h"
#include "tools/cli/weight_scales.h"

namespace fold8::cli {
namespace {

struct Args {
  std::string output, json, stats, method = "auto", activations = "auto", streams = "auto",
                                   attention = "auto", weights = "channel", smooth = "auto",
                                   rotate = "auto";
  std::vector<std::string> keep_float;
  double percentile = quant::kPercentile;
  bool float_only = false, no_search = false, no_equalize = false, reestimate_bn = false;
  int threads = 0;
  NetworkArgs network;
  DataArgs data;
  PreferArgs prefer;
  SearchArgs search;
};

Result<fusion::ConvertOptions> options_of(const Args& args, Progress& progress) {
  fusion::ConvertOptions o;
  o.float_only = args.float_only;
  o.search = !args.no_search;
  o.equalize = !args.no_equalize;
  o.rotate = args.rotate == "on"    ? fusion::Rotation::on
             : args.rotate == "off" ? fusion::Rotation::off
                                    : fusion::Rotation::automatic;
  o.layer_norm_to_rms_norm = args.network.to_rmsnorm;
  o.reestimate_bn = args.reestimate_bn;
  FOLD8_TRY(o.smooth, smoothing_of(args.smooth));
  if (o.smooth.off) o.equalize = false;
  o.threads = args.threads > 0 ? args.threads : usable_cpus();
  o.quantize.keep_float = args.keep_float;
  o.quantize.percentile = args.percentile;
  const auto method = quant::method_from_name(args.method);
  if (!method)
    return invalid_argument("--method " + args.method +
                            ": expected auto, minmax, percentile, entropy or mse");
  o.quantize.method = *method;
  if (args.activations == "static")
    o.quantize.activations = fusion::Activations::static_;
  else if (args.activations == "dynamic")
    o.quantize.activations = fusion::Activations::dynamic;
  else if (args.activations == "float")
    o.quantize.activations = fusion::Activations::float_;
  else if (args.activations != "auto") {
    FOLD8_CHECK_OK(no_group_activations(args.activations));
    return invalid_argument("--activations " + args.activations +
                            ": expected auto, static, dynamic or float");
  }
  if (args.streams == "u8")
    o.quantize.streams = fusion::Streams::u8;
  else if (args.streams == "f32")
    o.quantize.streams = fusion::Streams::f32;
  else if (args.streams != "auto")
    return invalid_argument("--streams " + args.streams + ": expected auto, u8 or f32");
  if (args.attention == "int8")
    o.quantize.attention = fusion::AttentionProducts::int8;
  else if (args.attention == "f32")
    o.quantize.attention = fusion::AttentionProducts::f32;
  else if (args.attention != "auto")
    return invalid_argument("--attention " + args.attention + ": expected auto, int8 or f32");
  if (args.weights == "tensor")
    o.quantize.weights = quant::WeightGranularity::per_tensor;
  else if (args.weights != "channel") {
    FOLD8_TRY(o.quantize.weight_group, weight_group_of(args.weights));
  }
  if (args.reestimate_bn && !args.stats.empty())
    return invalid_argument(
        "--reestimate-bn changes the network, so --stats of the network as it was do not fit it");
  if (args.prefer.prefer == "speed" && (args.float_only || args.activations == "float"))
    return invalid_argument(
        "--prefer speed weighs INT8 against float layers: it goes neither with "
        "--float nor with --activations float");
  o.progress = [&progress](const std::string& stage, std::size_t done, std::size_t total) {
    progress(stage, done, total);
  };
  return o;
}

void print_summary(const Args& args, const fusion::Converted& c, std::size_t bytes,
                   double seconds) {
  const fusion::ConvertSummary& s = c.summary;
  say(fmt::format("{}: {} in {:.1f} s", args.output, readable_bytes(static_cast<double>(bytes)),
                  seconds));
  say(fmt::format(
      "  quantized {} layers, int8_mac_share {}, {} BatchNorm left{}", s.quantized_layers.size(),
      s.int8_mac_share ? fmt::format("{:.3f}", *s.int8_mac_share) : "-", s.batch_norms_left,
      s.samples ? fmt::format(", calibrated on {} samples", s.samples) : ""));
  for (const auto& t : s.quantized_tables)
    say(fmt::format("  table {}: INT8 with a scale for each row", t));
  if (!s.speed_target.empty())
    say(fmt::format("  chosen for speed on {}, for the shapes of the first sample{}",
                    s.speed_target,
                    args.prefer.target.empty() && args.prefer.cost_table.empty()
                        ? " (the best target of this machine; --target names another)"
                        : ""));
  if (!args.float_only)
    for (const auto& f : s.float_layers)
      say(fmt::format("  kept float: {} ({}): {}", f.node, f.op, f.why));
  for (const auto& o : s.outputs)
    say(fmt::format(
        "  output {}: SQNR {}, max error {:.4g}{}{}", o.name,
        decibels(o.error.sqnr_db, o.error.exact), o.error.max_abs,
        o.top1 ? fmt::format(", top-1 agreement {:.1f} %", *o.top1 * 100) : "",
        s.scored_samples < s.samples ? fmt::format(", on {} samples", s.scored_samples) : ""));
  for (const std::string& line : reestimated_lines(s.reestimated)) say("  " + line);
  if (s.search) print_search(*s.search, args.search, args.output);
  if (const std::string line = smoothing_line(s.smoothed); !line.empty()) say("  " + line);
  if (const std::string line = rotation_line(s.rotated); !line.empty()) say("  " + line);
  if (!s.declined.empty())
    say(fmt::format("  {} rewrites declined: `fold8 inspect --why {}` says why", s.declined.size(),
                    args.output));
  if (args.network.to_rmsnorm)
    for (const auto& d : s.declined)
      if (d.pass == "layer_norm_to_rms_norm")
        say(fmt::format("  LayerNorm '{}' stays: {}", d.node, d.why));
  for (const auto& w : s.warnings) say_warning(w);
}

Json summary_json(const Args& args, const fusion::ConvertSummary& s, std::size_t bytes,
                  double seconds) {
  Json j{{"schema", "fold8.convert/1"},
         {"model", args.network.model},
         {"output", args.output},
         {"bytes", bytes},
         {"seconds", seconds},
         {"samples", s.samples},
         {"scored_samples", s.scored_samples}};
  j["stages"] = Json::array();
  for (const auto& t : s.stages) j["stages"].push_back({{"name", t.name}, {"seconds", t.seconds}});
  add_facts(s, j);
  if (!s.reestimated.empty()) j["reestimated"] = reestimated_json(s.reestimated);
  j["outputs"] = Json::array();
  for (const auto& o : s.outputs) {
    Json e{{"name", o.name}};
    e.update(error_json(o.error));
    e["top1_agreement"] = number_or_null(o.top1);
    j["outputs"].push_back(e);
  }
  if (s.search) j["search"] = search_json(*s.search, args.search);
  return j;
}

void say_without_samples() {
  say_note(
      "",
      "--stats alone: INT8 was not checked against float, and what only samples can judge was "
      "left out: the search for smoothing, equalization, weights rounded for their outputs, "
      "corrected biases, static scales among per-token ones, remedies, and whether streams and "
      "attention may be INT8 (they are); add --calib DATA for these, or run `fold8 report`");
}

// Only what helps: the file is written, and no failure here takes it back. Who asked for one pass
// is told where to look, since looking costs more than the conversion.
void say_causes(const Args& args, const fusion::Converted& converted, quant::SampleSource& samples,
                const fusion::ConvertOptions& options, Progress& progress) {
  if (!is_poor(converted.summary, options)) return;
  if (args.no_search) {
    const std::string data = data_flag(args.data, "--data");
    if (args.network.preprocess.empty() && !data.empty())
      say(fmt::format("  causes: fold8 report {} {} {}", quant::shell_word(args.network.model),
                      quant::shell_word(args.output), data));
    else
      say("  causes: `fold8 report` against the model that --float makes says them");
    return;
  }
  // The network is read again, so that nothing of it is held meanwhile.
  const auto causes = why_poor([&] { return import_network(args.network, false); }, converted,
                               samples, options, progress);
  if (!causes.ok()) return;
  for (const std::string& line : *causes) say("  " + line);
}

Result<int> convert_model(Args args) {
  const auto begin = std::chrono::steady_clock::now();
  FOLD8_CHECK_OK(check_paths(
      with_data({args.network.model, args.prefer.cost_table, args.stats, args.search.labels},
                args.data),
      {args.output, args.json, args.search.log}));
  if (!args.data.again.empty()) args.stats.clear();
  Progress progress("fold8 convert");
  FOLD8_TRY(fusion::ConvertOptions options, options_of(args, progress));
  FOLD8_TRY(const auto cost_table, open_cost_table(args.prefer));
  options.cost_table = cost_table ? &*cost_table : nullptr;
  std::optional<quant::Statistics> statistics;
  if (!args.stats.empty()) {
    FOLD8_TRY(statistics, read_statistics(args.stats));
    options.statistics = &*statistics;
  }
  FOLD8_TRY(options.target, target_of(args.search, args.data,
                                      args.float_only               ? "--float"
                                      : args.no_search              ? "--no-search"
                                      : args.activations == "float" ? "--activations float"
                                                                    : ""));
  FOLD8_TRY(const auto search_log, SearchLog::open(args.search.log));
  options.memory = search_log.get();
  progress("import", 0, 0);
  FOLD8_TRY(graph::Graph imported, import_network(args.network));
  OpenedData samples;
  if (args.float_only && args.data.given() && !args.reestimate_bn) {
    say_warning("--float rounds nothing: the data of --calib is not read");
  } else if (args.data.given()) {
    FOLD8_TRY(samples, open_data(args.data, imported));
    if (args.data.random())
      say_warning(
          "calibrating on random numbers: the result says nothing about accuracy on real data");
  }
  auto result = fusion::convert(std::move(imported), samples.source.get(), options);
  if (!result.ok())  // the options were checked above: with samples, what is wrong are they
    return samples.source ? bad_data(std::move(result).error()) : std::move(result).error();
  const fusion::Converted& converted = *result;
  progress("write", 0, 0);
  FOLD8_CHECK_OK(format::write_file(converted.graph, args.output));
  std::error_code no_size;  // of a device
  const std::uintmax_t size = std::filesystem::file_size(args.output, no_size);
  const std::size_t bytes = no_size ? 0 : static_cast<std::size_t>(size);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (statistics && !samples.source && !args.float_only) say_without_samples();
  print_summary(args, converted, bytes, seconds);
  if (search_log && !search_log->status().ok())
    say_warning(search_log->status().error().message + "; the model is whole");
  if (samples.source) say_causes(args, converted, *samples.source, options, progress);
  if (!args.json.empty())
    FOLD8_CHECK_OK(write_json(summary_json(args, converted.summary, bytes, seconds), args.json));
  return converted.summary.search && !converted.summary.search->met ? 1 : 0;
}

}  // namespace

Command add_convert(CLI::App& app) {
  auto args = std::make_shared<Args>();
  app.add_option("model", args->network.model, "An .onnx file, float or with Q/DQ")->required();
  app.add_option("-o,--output", args->output, "The .f8 file to write")->required();
  add_data_options(
      app, args->data, "--calib",
      "Calibration data: folder or list of .npz, .npy, test_data_set folders, images, or 'random'",
      false);
  add_recalib_option(app, args->data);
  app.add_option(
      "--stats", args->stats,
      "Ranges from `fold8 calibrate` or `fold8 merge`; with --calib as well, its samples "
      "serve for what ranges cannot tell: scores, smoothing, rounding");
  app.add_flag("--float", args->float_only, "Compile without quantizing");
  app.add_option("--method", args->method, "Ranges: auto, minmax, percentile, entropy, mse")
      ->capture_default_str();
  app.add_option("--percentile", args->percentile, "Share of values kept by --method percentile")
      ->check(CLI::Range(0.5, 1.0))
      ->capture_default_str();
  app.add_option("--activations", args->activations,
                 "auto, static, dynamic (per token), float (weight-only)")
      ->capture_default_str();
  app.add_option(
         "--streams", args->streams,
         "Skip connections and gated feature maps between INT8 layers: u8, f32, or auto: u8 "
         "unless it costs more than 1.5 dB on the samples")
      ->capture_default_str();
  app.add_option("--attention", args->attention,
                 "Products of queries and keys, weights and values: int8 (rounded per token on the "
                 "way), f32, or auto: int8 unless it costs more than 1.5 dB on the samples")
      ->capture_default_str();
  app.add_option("--weights", args->weights,
                 "Scales of the weights: channel, tensor, or group:N: one for every N inputs of an "
                 "output of a matrix layer")
      ->capture_default_str();
  app.add_option("--keep-float", args->keep_float,
                 "Layers and tables (glob over node, output and table names) that stay float");
  add_prefer_options(app, args->prefer);
  add_search_options(app, args->search);
  add_network_options(app, args->network);
  app.add_option("--smooth", args->smooth,
                 "SmoothQuant: auto (where the samples say that it gains), off (no equalization "
                 "either), or its alpha in [0, 1] for every layer")
      ->capture_default_str();
  app.add_option("--rotate", args->rotate,
                 "Rotate rows in front of their rounding per token, and weights with them, so that "
                 "a few large elements do not take all codes: auto (where INT8 stays below 30 dB "
                 "or the target, for about 2 % of the time), on (wherever it gains) or off")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "on", "off"}));
  app.add_flag("--reestimate-bn", args->reestimate_bn,
               "Measure the mean and variance of every BatchNorm again on the samples, before "
               "folding: for data unlike that of the training");
  app.add_flag("--no-equalize", args->no_equalize,
               "Do not try to move factors between neighbouring layers whose channels differ much");
  app.add_flag("--no-search", args->no_search, "Do not try remedies where INT8 is poor");
  add_threads_option(app, args->threads);
  app.add_option("--json", args->json, "Write the summary as JSON (- for standard output)");
  // A fix that `fold8 report` names can be pasted behind the options it replaces.
  for (const char* name : {"--method", "--percentile", "--activations", "--streams", "--attention",
                           "--weights", "--smooth"})
    app.get_option(name)->take_last();
  return [args] { return convert_model(*args); };
}

}  // namespace fold8::cli
