// The one symbol of libupscaled_opencl.so.
#include "engine/backends/opencl/opencl_backend.h"
#include "engine/backends/plugin.h"

extern "C" __attribute__((visibility("default"))) const upscaled::BackendPlugin*
UpscaledBackendPlugin() {
  static const upscaled::BackendPlugin plugin = {
      upscaled::PluginAbi(), &upscaled::EnumerateOpenClDevices, &upscaled::CreateOpenClBackend};
  return &plugin;
}
