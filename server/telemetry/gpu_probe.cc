#include "server/telemetry/gpu_probe.h"

#include <dlfcn.h>

#include <array>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "engine/base/string_view.h"

namespace upscaled::server {
namespace {

// The value in NVIDIA's headers cuda.h and nvml.h. The build does not need them.
constexpr int kSuccess = 0;
constexpr int kBusIdBytes = 32;

template <typename Function>
bool Find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

void* Load(const std::string& library) {
  return dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

// The number N of "cuda:N".
std::optional<int> OrdinalOf(const std::string& device) {
  absl::string_view name = device;
  int ordinal = 0;
  if (!absl::ConsumePrefix(&name, "cuda:") || !absl::SimpleAtoi(name, &ordinal)) return {};
  return ordinal;
}

// The driver's names of devices: CUDA numbers them in another order than NVML, and as
// CUDA_VISIBLE_DEVICES says.
class BusIds {
 public:
  explicit BusIds(const std::string& library) {
    void* const cuda = Load(library);
    int (*start)(unsigned int) = nullptr;
    loaded_ = cuda != nullptr && Find(cuda, "cuInit", start) && Find(cuda, "cuDeviceGet", get_) &&
              Find(cuda, "cuDeviceGetPCIBusId", bus_id_of_) && start(0) == kSuccess;
  }

  // "0000:65:00.0"; empty if the driver does not know the device.
  std::string Of(int ordinal) const {
    int device = 0;
    std::array<char, kBusIdBytes> id{};
    if (!loaded_ || get_(&device, ordinal) != kSuccess ||
        bus_id_of_(id.data(), kBusIdBytes, device) != kSuccess) {
      return "";
    }
    return id.data();
  }

 private:
  bool loaded_ = false;
  int (*get_)(int*, int) = nullptr;
  int (*bus_id_of_)(char*, int, int) = nullptr;
};

}  // namespace

struct GpuProbe::Nvml {
  // Declarations of nvml.h.
  struct Memory {
    unsigned long long total, free, used;
  };
  struct Utilization {
    unsigned int gpu, memory;  // percent
  };
  using Device = void*;

  int (*start)() = nullptr;
  int (*stop)() = nullptr;
  int (*find)(const char*, Device*) = nullptr;
  int (*memory_of)(Device, Memory*) = nullptr;
  int (*utilization_of)(Device, Utilization*) = nullptr;
  bool started = false;
  std::map<std::string, Device, std::less<>> devices;  // by the server's names

  explicit Nvml(const std::string& library) {
    void* const nvml = Load(library);
    started = nvml != nullptr && Find(nvml, "nvmlInit_v2", start) &&
              Find(nvml, "nvmlShutdown", stop) &&
              Find(nvml, "nvmlDeviceGetHandleByPciBusId_v2", find) &&
              Find(nvml, "nvmlDeviceGetMemoryInfo", memory_of) &&
              Find(nvml, "nvmlDeviceGetUtilizationRates", utilization_of) && start() == kSuccess;
  }
  ~Nvml() {
    if (started) stop();
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
};

GpuProbe::GpuProbe(const std::vector<std::string>& devices, const std::string& cuda_library,
                   const std::string& nvml_library) {
  std::map<std::string, int> ordinals;
  for (const std::string& device : devices) {
    if (const std::optional<int> ordinal = OrdinalOf(device)) ordinals[device] = *ordinal;
  }
  if (ordinals.empty()) return;
  auto nvml = std::make_unique<Nvml>(nvml_library);
  if (!nvml->started) return;
  const BusIds bus_ids(cuda_library);
  for (const auto& [device, ordinal] : ordinals) {
    Nvml::Device handle = nullptr;
    if (nvml->find(bus_ids.Of(ordinal).c_str(), &handle) == kSuccess) {
      nvml->devices[device] = handle;
    }
  }
  nvml_ = std::move(nvml);
}

GpuProbe::~GpuProbe() = default;

GpuReading GpuProbe::Read(std::string_view device) const {
  GpuReading reading;
  if (nvml_ == nullptr) return reading;
  const auto found = nvml_->devices.find(device);
  if (found == nvml_->devices.end()) return reading;
  Nvml::Memory memory{};
  if (nvml_->memory_of(found->second, &memory) == kSuccess) {
    reading.memory_used_bytes = static_cast<int64_t>(memory.used);
    reading.memory_bytes = static_cast<int64_t>(memory.total);
  }
  Nvml::Utilization utilization{};
  if (nvml_->utilization_of(found->second, &utilization) == kSuccess) {
    reading.utilization = utilization.gpu / 100.0;
  }
  return reading;
}

}  // namespace upscaled::server
