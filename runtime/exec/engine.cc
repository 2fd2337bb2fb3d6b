#include "runtime/exec/engine.h"

#include <dlfcn.h>

#include <mutex>

#include "runtime/kernels/kernel_table.h"

namespace fold8::exec {

// Engines share C++ types with the runtime: the compiler's date of this file tells builds apart well enough, since a
// change of those types rebuilds it.
const char* const kEngineAbi = FOLD8_VERSION " " __VERSION__;

namespace {

constexpr const char* kOnednnLibrary = "libfold8_onednn.so";

Result<const Engine*> load(const char* library) {
  // Never unloaded: plans keep its steps.
  void* handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return unsupported("engine 'onednn' is not installed (" + std::string(::dlerror()) + "); use engine 'fold8'");
  const auto* entry = static_cast<const EngineEntry*>(::dlsym(handle, "fold8_engine_entry"));
  if (entry == nullptr || entry->abi == nullptr || std::string(entry->abi) != kEngineAbi)
    return unsupported(std::string(library) + " belongs to another build of fold8; install both from the same one");
  FOLD8_TRY(const kernels::Target* target, kernels::select_target());
  return entry->create(*target);
}

}  // namespace

Result<const Engine*> find_engine(const std::string& name) {
  if (name == "fold8") return static_cast<const Engine*>(nullptr);
  if (name != "onednn") return invalid_argument("unknown engine '" + name + "'; engines are fold8, onednn");
  static std::mutex mutex;
  static const Engine* loaded = nullptr;
  const std::lock_guard lock(mutex);
  if (loaded != nullptr) return loaded;
  FOLD8_TRY(loaded, load(kOnednnLibrary));
  return loaded;
}

}  // namespace fold8::exec
