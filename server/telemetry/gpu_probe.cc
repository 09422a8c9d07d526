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

std::map<std::string, int> OrdinalsOf(const std::vector<std::string>& devices) {
  std::map<std::string, int> ordinals;
  for (const std::string& device : devices) {
    if (const std::optional<int> ordinal = OrdinalOf(device)) ordinals[device] = *ordinal;
  }
  return ordinals;
}

}  // namespace

// NVML, with its names of the devices.
class GpuProbe::Driver {
 public:
  Driver(const std::map<std::string, int>& ordinals, const std::string& cuda_library,
         const std::string& nvml_library) {
    void* const nvml = Load(nvml_library);
    started_ = nvml != nullptr && Find(nvml, "nvmlInit_v2", start_) &&
               Find(nvml, "nvmlShutdown", stop_) &&
               Find(nvml, "nvmlDeviceGetHandleByPciBusId_v2", find_) &&
               Find(nvml, "nvmlDeviceGetMemoryInfo", memory_of_) &&
               Find(nvml, "nvmlDeviceGetUtilizationRates", utilization_of_) && start_() == kSuccess;
    if (!started_) return;
    const BusIds bus_ids(cuda_library);
    for (const auto& [device, ordinal] : ordinals) {
      Device handle = nullptr;
      if (find_(bus_ids.Of(ordinal).c_str(), &handle) == kSuccess) devices_[device] = handle;
    }
  }
  ~Driver() {
    if (started_) stop_();
  }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  // All devices, in about a millisecond for each.
  std::map<std::string, GpuReading, std::less<>> Read() const {
    std::map<std::string, GpuReading, std::less<>> readings;
    for (const auto& [device, handle] : devices_) {
      GpuReading& reading = readings[device];
      Memory memory{};
      if (memory_of_(handle, &memory) == kSuccess) {
        reading.memory_used_bytes = static_cast<int64_t>(memory.used);
        reading.memory_bytes = static_cast<int64_t>(memory.total);
      }
      Utilization utilization{};
      if (utilization_of_(handle, &utilization) == kSuccess) {
        reading.utilization = utilization.gpu / 100.0;
      }
    }
    return readings;
  }

 private:
  // Declarations of nvml.h.
  struct Memory {
    unsigned long long total, free, used;
  };
  struct Utilization {
    unsigned int gpu, memory;  // percent
  };
  using Device = void*;

  int (*start_)() = nullptr;
  int (*stop_)() = nullptr;
  int (*find_)(const char*, Device*) = nullptr;
  int (*memory_of_)(Device, Memory*) = nullptr;
  int (*utilization_of_)(Device, Utilization*) = nullptr;
  bool started_ = false;
  std::map<std::string, Device> devices_;  // by the server's names
};

GpuProbe::GpuProbe(Timer& timer, const std::vector<std::string>& devices, const Clock& clock,
                   std::string cuda_library, std::string nvml_library)
    : clock_(clock),
      ordinals_(OrdinalsOf(devices)),
      cuda_library_(std::move(cuda_library)),
      nvml_library_(std::move(nvml_library)) {
  if (ordinals_.empty()) return;
  task_.emplace(
      timer, Timer::Length::kMayBlock, [this] { Refresh(); }, kInterval);
  task_->Request();
}

GpuProbe::~GpuProbe() = default;

void GpuProbe::Refresh() {
  if (driver_ == nullptr) {
    driver_ = std::make_unique<Driver>(ordinals_, cuda_library_, nvml_library_);
  }
  auto readings = driver_->Read();
  absl::MutexLock lock(&mutex_);
  readings_ = std::move(readings);
  read_ = clock_.Now();
}

GpuReading GpuProbe::Read(std::string_view device) const {
  absl::MutexLock lock(&mutex_);
  const auto found = readings_.find(device);
  if (found == readings_.end() || clock_.Now() - read_ > kMaxAge) return {};
  return found->second;
}

}  // namespace upscaled::server
