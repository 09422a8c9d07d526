#include "engine/backends/plugin.h"

#include <dlfcn.h>

#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "engine/graph/activation_cache.h"
#include "engine/graph/pooling.h"
#include "engine/graph/tile_plan.h"
#include "engine/model/network.h"

namespace upscaled {

const char* PluginAbi() {
  static const std::string* const abi = new std::string(absl::StrCat(
      "upscaled ", UPSCALED_VERSION, ", compiler ", __VERSION__, ", types of ",
      sizeof(BackendOptions), ", ", sizeof(TileTask), ", ", sizeof(Network), ", ", sizeof(Layer),
      ", ", sizeof(PluginDevice), ", ", sizeof(TilePlan), ", ", sizeof(PoolingPass), " and ",
      sizeof(ActivationCache), " bytes, headers ", UPSCALED_PLUGIN_TYPES));
  return abi->c_str();
}

absl::StatusOr<const BackendPlugin*> LoadPlugin(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    return absl::UnavailableError(absl::StrCat("no plugin ", path));
  }
  // Never unloaded: objects and types of its code outlive every call.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return absl::UnavailableError(dlerror());
  void* const symbol = dlsym(library, kPluginSymbol);
  if (symbol == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is no plugin of ours: ", dlerror()));
  }
  const BackendPlugin* const plugin = reinterpret_cast<PluginEntry*>(symbol)();
  if (std::strcmp(plugin->abi, PluginAbi()) == 0) return plugin;
  return absl::FailedPreconditionError(absl::StrCat("plugin ", path, " is of another build: '",
                                                    plugin->abi, "', the program's is '",
                                                    PluginAbi(), "'"));
}

}  // namespace upscaled
