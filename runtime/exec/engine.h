// A second implementation of some operators, asked before fold8's own.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/core/result.h"
#include "runtime/kernels/kernel_table.h"
#include "runtime/ops/op_impl.h"

namespace fold8::exec {

class Engine {
 public:
  virtual ~Engine() = default;
  virtual std::string_view name() const = 0;
  // Null: the operator (with these types) runs on fold8's own kernels.
  virtual Result<std::unique_ptr<ops::Step>> prepare(const graph::Op& op,
                                                     const ops::PrepareContext& ctx) const = 0;
};

// "fold8": null. "onednn": loads libfold8_onednn.so once per process. Others: an error that lists
// the names.
Result<const Engine*> find_engine(const std::string& name);

// What an engine library exports: extern "C" const fold8::exec::EngineEntry fold8_engine_entry.
// Engine and runtime share C++ types, so both must come from the same build of fold8.
struct EngineEntry {
  const char* abi = nullptr;  // kEngineAbi
  Result<const Engine*> (*create)(const kernels::Target& target) = nullptr;
};
inline constexpr const char* kEngineAbi =
    "fold8 engine 1, " __VERSION__;  // count up with every change of Step or Op

}  // namespace fold8::exec
