#include "quant/fixes.h"

#include <algorithm>
#include <cmath>

#include "quant/cause_text.h"
#include "quant/choose_params.h"
#include "runtime/kernels/math_double.h"

namespace fold8::quant {
namespace {

constexpr std::size_t kMostFixes = 4, kMostKept = 3;
// Time that a fix without float multiply-adds costs, as a share of them: for ranking only.
constexpr double kFreeCost = 0.01, kTokenCost = 0.03, kStreamCost = 0.08, kAttentionCost = 0.15;
constexpr double kAnyCost = 0.02;    // of a fix that costs nothing: its gain counts, too
constexpr double kTrust = 0.5;       // in an estimate: it sees one tensor, a flag may change all
constexpr double kLeastRatio = 0.5;  // a fix leaves at most this share of the squared error
// Of the values: what no method clips of the samples that it saw. They were other ones.
constexpr double kMostClipped = 0.02;

double decibels(double ratio) { return 10 * kernels::log_f64(ratio) / kernels::log_f64(10); }

// A name that looks like an option is held to the flag.
std::string keep_float_flag(const std::string& name) {
  return (name.starts_with("-") ? "--keep-float=" : "--keep-float ") + shell_word(name);
}

class Chooser {
 public:
  Chooser(const Problem& problem, const Cause& cause, const Situation& situation)
      : p_(problem), cause_(cause), s_(situation) {
    if (p_.rounding) r_ = &s_.facts.roundings[*p_.rounding];
  }

  std::vector<Fix> choose() {
    calibrate_again();
    smooth();
    per_token();
    other_range();
    per_channel_weights();
    drop_pair();
    keep_float();
    streams();
    attention();
    if (p_.layer != nullptr && p_.also.empty() && p_.gain_db)
      for (Fix& f : list_)
        if (f.mends == std::vector{p_.layer->name}) bound(f, *p_.gain_db);
    rank(list_);
    if (list_.size() > kMostFixes) list_.resize(kMostFixes);
    return std::move(list_);
  }

 private:
  // What the outputs win if this share of the problem's squared error goes.
  std::optional<double> gain(double share_gone) const {
    if (!p_.noise || !(s_.noise > 0)) return std::nullopt;
    const double part = std::min(*p_.noise / s_.noise, 0.999) * share_gone;
    return decibels(1 / (1 - std::min(part, 0.999)));
  }

  void add(std::string flag, std::string what, std::optional<double> gained, bool measured,
           double float_share, double cost) {
    Fix f;
    f.flag = std::move(flag);
    f.gained_db = gained;
    f.measured = measured;
    f.float_share = float_share;
    f.why = std::move(what);
    f.cost = cost;
    if (!measured && p_.layer != nullptr) {
      f.mends.push_back(p_.layer->name);
      for (const LayerFacts* l : p_.also) f.mends.push_back(l->name);
    }
    list_.push_back(std::move(f));
  }

  // Calibration chooses the scale, not a file.
  bool is_ours() const { return s_.options.file_scales.count(r_->where.tensor) == 0; }

  // What is left of the squared error with one scale for all values of these samples.
  static double error_with_whole_range(const RoundingFacts& r) {
    const double step =
        static_cast<double>(activation_params(choose_range(r.seen, Method::minmax)).scale());
    return step * step / 12 * static_cast<double>(r.count());
  }

  bool is_linear(const LayerFacts* l) const { return l != nullptr && l->weights.has_value(); }

  void keep_float() {
    std::vector<std::string> globs, names;
    double macs = 0, cost = kFreeCost;
    std::vector<const LayerFacts*> layers;
    if (p_.layer != nullptr) layers.push_back(p_.layer);
    for (const LayerFacts* l : p_.also)
      if (layers.size() < kMostKept) layers.push_back(l);
    bool others = layers.empty();
    for (const LayerFacts* l : layers) {
      if (!is_linear(l) && !p_.attention) {
        others = true;
        continue;
      }
      names.push_back(l->name);
      globs.push_back(keep_float_flag(l->name));
      macs += is_linear(l) ? l->macs : 0;
      cost += l->float_cost;
    }
    if (r_ != nullptr && others) globs.push_back(keep_float_flag(r_->where.tensor));
    if (globs.empty()) return;
    const double share = s_.facts.macs > 0 ? macs / s_.facts.macs : 0;
    const bool alone = globs.size() == 1 && names.size() == 1 && names[0] == p_.layer->name;
    const bool measured = p_.gain_db.has_value() && alone;
    add(join(globs, " "),
        globs.size() == 1 ? "does not round there" : "does not round for these layers",
        measured ? p_.gain_db : gain(1), measured, share, cost);
    if (!others) list_.back().layers = std::move(names);
  }

  // The file's pair goes; whoever reads the tensor is quantized with a scale of fold8's own.
  void drop_pair() {
    if (r_ == nullptr || is_ours()) return;
    const std::string& node = s_.options.file_scales.at(r_->where.tensor);
    if (node.empty()) return;
    const QuantParams wanted = activation_params(choose_range(r_->seen, Method::automatic));
    const double step = static_cast<double>(wanted.scale()),
                 then = step * step / 12 * static_cast<double>(r_->count());
    const bool better = then <= kLeastRatio * r_->powers.error;
    const bool unread = r_->where.readers.empty();  // then it stays float
    if (!better && !unread) return;
    add(keep_float_flag(node), "drops this pair of the file",
        gain(unread ? 1 : 1 - then / r_->powers.error), false, 0, kFreeCost);
  }

  void calibrate_again() {
    if (r_ == nullptr || r_->per_token() || !is_ours()) return;
    const bool scale = cause_.kind == CauseKind::scale_too_small ||
                       cause_.kind == CauseKind::scale_too_large ||
                       cause_.kind == CauseKind::clipped;
    if (!scale) return;
    const double then = error_with_whole_range(*r_);
    if (then > kLeastRatio * r_->powers.error) return;
    const std::string data = s_.options.calibration_flag;
    if (data.empty()) return;
    add(data + " --method minmax", "chooses the scales on these samples",
        gain(1 - then / r_->powers.error), false, 0, kFreeCost);
    list_.back().mends.clear();  // new scales for every tensor: more than a few layers in float win
  }

  void smooth() {
    const bool uneven = cause_.kind == CauseKind::outlier_channel ||
                        cause_.kind == CauseKind::outlier_weights ||
                        cause_.kind == CauseKind::dead_channel;
    if (!uneven || p_.layer == nullptr || !p_.layer->smoothed) return;
    if (r_ != nullptr && !is_ours()) return;
    const SmoothedError& e = *p_.layer->smoothed;
    if (!(e.now > 0) || e.then > kLeastRatio * e.now) return;
    add("--smooth 0.5", "moves the factors between activations and weights (SmoothQuant)",
        gain(1 - e.then / e.now), false, 0, kFreeCost);
  }

  void per_token() {
    if (r_ == nullptr || r_->per_token() || !r_->where.to_matrix || !is_ours() ||
        r_->token_error > kLeastRatio * r_->powers.error)
      return;
    add("--activations dynamic", "gives every row of a matrix layer's input a scale of its own",
        gain(1 - r_->token_error / r_->powers.error), false, 0, kTokenCost);
  }

  // Ranges by another method, where the histogram says that it errs less here. It sees the samples
  // of the calibration: of no use where those were others.
  void other_range() {
    if (r_ == nullptr || r_->per_token() || !is_ours() || r_->seen.empty() ||
        cause_.kind == CauseKind::scale_too_small || cause_.kind == CauseKind::scale_too_large)
      return;
    if (static_cast<double>(r_->clipped) > kMostClipped * static_cast<double>(r_->count())) return;
    const char* best = nullptr;
    double least = r_->powers.error * kLeastRatio;
    for (const Method m : {Method::minmax, Method::percentile, Method::mse}) {
      const QuantParams q = activation_params(choose_range(r_->seen, m));
      const double scale = static_cast<double>(q.scale()), lo = -q.zero_point() * scale;
      const double error =
          expected_squared_error(r_->seen.histogram(), scale, lo, lo + 255 * scale);
      if (error >= least) continue;
      least = error;
      best = name(m).data();
    }
    if (best == nullptr) return;
    std::string flag = std::string("--method ") + best;
    if (flag == "--method percentile") flag += " --percentile " + plain_number(kPercentile);
    add(std::move(flag), "chooses ranges otherwise, for every tensor",
        gain(1 - least / r_->powers.error), false, 0, kFreeCost);
  }

  void per_channel_weights() {
    if (cause_.kind == CauseKind::weights_per_tensor)
      add("--weights channel", "gives every output channel a scale", gain(0.9), false, 0,
          kFreeCost);
  }

  void streams() {
    if (r_ == nullptr || r_->per_token() || !is_ours()) return;
    const bool carried = p_.layer == nullptr || !is_linear(p_.layer);
    if (!carried || r_->where.readers.empty()) return;
    add("--streams f32", "keeps skip connections and gated feature maps float", gain(1), false, 0,
        kStreamCost);
  }

  void attention() {
    if (!p_.attention) return;
    add("--attention f32", "computes the products inside attention in float", gain(1), false, 0,
        kAttentionCost);
    list_.back().layers = s_.attentions;
  }

  const Problem& p_;
  const Cause& cause_;
  const Situation& s_;
  const RoundingFacts* r_ = nullptr;
  std::vector<Fix> list_;
};

}  // namespace

std::string text(const Fix& fix) {
  std::string text = fix.why;
  if (fix.gained_db)
    text += (*fix.gained_db < 0 ? "; loses " : "; wins ") +
            std::string(fix.measured ? "" : "about ") + short_number(std::abs(*fix.gained_db)) +
            " dB" + (fix.measured ? "" : " (estimated)");
  if (fix.float_share > 0)
    text += ", leaves " + percent(fix.float_share) + " of the multiply-adds float";
  return text;
}

void bound(Fix& fix, double most) {
  if (!fix.measured && fix.gained_db && *fix.gained_db > most) fix.gained_db = std::max(most, 0.0);
}

void rank(std::vector<Fix>& fixes) {
  const auto value = [](const Fix& f) {
    return f.gained_db.value_or(1) * (f.measured ? 1 : kTrust) / (kAnyCost + f.cost);
  };
  std::stable_sort(fixes.begin(), fixes.end(), [&](const Fix& a, const Fix& b) {
    if (a.flag.empty() != b.flag.empty()) return b.flag.empty();
    return value(a) > value(b);
  });
  // Nobody wants to paste what was seen to win nothing, or is known to.
  std::erase_if(fixes, [](const Fix& f) {
    return f.gained_db && (f.measured ? *f.gained_db <= 0 : *f.gained_db == 0);
  });
}

std::vector<Fix> fixes_for(const Problem& problem, const Cause& cause, const Situation& situation) {
  return Chooser(problem, cause, situation).choose();
}

}  // namespace fold8::quant
