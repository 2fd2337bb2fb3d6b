#include "runtime/exec/engine.h"

#include <dlfcn.h>

#include <mutex>

#include "runtime/kernels/kernel_table.h"

namespace fold8::exec {

namespace {

constexpr const char* kOnednnLibrary = "libfold8_onednn.so";

// The folder of the library or program this code is in: engines are installed beside it.
std::string own_folder() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr)
    return "";
  const std::string path = info.dli_fname;
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

// Never unloaded: plans keep its steps.
void* open_library(const std::string& name) {
  const std::string folder = own_folder();
  if (!folder.empty())
    for (const char* beside : {"", "../lib/"})
      if (void* handle = ::dlopen((folder + beside + name).c_str(), RTLD_NOW | RTLD_LOCAL))
        return handle;
  return ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);  // the loader's own paths
}

Result<const Engine*> load(const char* library) {
  void* handle = open_library(library);
  if (handle == nullptr)
    return unsupported("engine 'onednn' is not installed (" + std::string(::dlerror()) +
                       "); use engine 'fold8'");
  const auto* entry = static_cast<const EngineEntry*>(::dlsym(handle, "fold8_engine_entry"));
  if (entry == nullptr || entry->abi == nullptr || std::string(entry->abi) != kEngineAbi)
    return unsupported(std::string(library) +
                       " belongs to another build of fold8; install both from the same one");
  FOLD8_TRY(const kernels::Target* target, kernels::select_target());
  return entry->create(*target);
}

}  // namespace

Result<const Engine*> find_engine(const std::string& name) {
  if (name == "fold8") return static_cast<const Engine*>(nullptr);
  if (name != "onednn")
    return invalid_argument("unknown engine '" + name + "'; engines are fold8, onednn");
  static std::mutex mutex;
  static const Engine* loaded = nullptr;
  const std::lock_guard lock(mutex);
  if (loaded != nullptr) return loaded;
  FOLD8_TRY(loaded, load(kOnednnLibrary));
  return loaded;
}

}  // namespace fold8::exec
