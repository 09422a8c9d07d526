// The one symbol of libupscaled_cuda.so.
#include "engine/backends/cuda/cuda_backend.h"
#include "engine/backends/plugin.h"

extern "C" __attribute__((visibility("default"))) const upscaled::BackendPlugin*
UpscaledBackendPlugin() {
  static const upscaled::BackendPlugin plugin = {
      upscaled::PluginAbi(), &upscaled::EnumerateCudaDevices, &upscaled::CreateCudaBackend};
  return &plugin;
}
