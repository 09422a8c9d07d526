// A plugin of another build: calling anything of it would end the process.
#include "engine/backends/plugin.h"

extern "C" const upscaled::BackendPlugin* UpscaledBackendPlugin() {
  static const upscaled::BackendPlugin plugin = {"of another time", nullptr, nullptr};
  return &plugin;
}
