#include "fusion/speed_model.h"

#include <set>

namespace fold8::fusion {
namespace {

constexpr int kMostSweeps = 100;

struct Wanted {
  bool u8 = false, u8_rows = false, f32 = false;
};

Wanted wanted(const SpeedModel& m, const SpeedModel::Tensor& t) {
  Wanted w;
  w.f32 = t.needs_f32;
  for (std::size_t r : t.readers) {
    const SpeedModel::Layer& l = m.layers[r];
    (!l.int8 ? w.f32 : l.per_row ? w.u8_rows : w.u8) = true;
  }
  return w;
}

}  // namespace

// By the layer before. Nobody cares: as that layer likes it.
bool SpeedModel::writes_u8(const Tensor& t) const {
  const Wanted w = wanted(*this, t);
  if (w.f32 || w.u8_rows) return false;
  return w.u8 || (layers[*t.writer].int8 && !layers[*t.writer].per_row);
}

double SpeedModel::cost_of(const Tensor& t) const {
  const Wanted w = wanted(*this, t);
  const bool u8_made = t.writer && writes_u8(t);
  double us = 0;
  if (t.writer) {
    const Layer& l = layers[*t.writer];
    us += l.cost.of(l.int8, u8_made);
  }
  if (w.u8 && !u8_made) us += t.rounding_us;
  if (w.u8_rows) us += t.rows_us;
  if (t.writer ? !u8_made : !w.u8 || w.f32) us += t.wider_us;
  return us;
}

double SpeedModel::total() const {
  double us = 0;
  for (const Tensor& t : tensors) us += cost_of(t);
  return us;
}

// Keeps the change if the sum falls, or stays with more layers INT8. Only tensors next to the
// layers change their cost.
bool SpeedModel::try_all(const std::vector<std::size_t>& these, bool int8) {
  std::vector<std::size_t> changed;
  std::set<std::size_t> touched;
  for (std::size_t l : these) {
    if (layers[l].fixed || layers[l].int8 == int8) continue;
    changed.push_back(l);
    touched.insert({layers[l].input, layers[l].output});
  }
  if (changed.empty()) return false;
  const auto sum = [&] {
    double us = 0;
    for (std::size_t t : touched) us += cost_of(tensors[t]);
    return us;
  };
  const double before = sum();
  for (std::size_t l : changed) layers[l].int8 = int8;
  const double after = sum();
  // More than rounding errors, so that no two states follow each other for ever.
  if (int8 ? after <= before : after < before * (1 - 1e-9)) return true;
  for (std::size_t l : changed) layers[l].int8 = !int8;
  return false;
}

double SpeedModel::descend() {
  bool moved = true;
  for (int sweep = 0; moved && sweep < kMostSweeps; ++sweep) {
    moved = false;
    for (std::size_t l = 0; l < layers.size(); ++l) moved |= try_all({l}, !layers[l].int8);
    for (const Tensor& t : tensors)
      for (const bool int8 : {true, false}) moved |= try_all(t.readers, int8);
  }
  return total();
}

void SpeedModel::minimize() {
  const auto start = [this](bool int8) {
    for (Layer& l : layers)
      if (!l.fixed) l.int8 = int8;
    return descend();
  };
  const double from_float = start(false);
  const std::vector<Layer> found = layers;
  if (from_float < start(true)) layers = found;
}

SpeedModel::Comparison SpeedModel::compare(std::size_t layer) {
  Layer& l = layers[layer];
  const double before = total(), now = l.cost.of(l.int8, writes_u8(tensors[l.output]));
  l.int8 = !l.int8;
  const double other = now + (total() - before);
  l.int8 = !l.int8;
  return {now, other};
}

}  // namespace fold8::fusion
