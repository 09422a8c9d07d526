// NVML of the two GPUs of fake_cuda.c. The second one is cut up by MIG: it has no utilisation.
#include <string.h>

static int gpus[2];

struct Memory {
  unsigned long long total, free, used;
};
struct Utilization {
  unsigned int gpu, memory;
};

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }

int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** device) {
  if (strcmp(id, "0000:17:00.0") != 0 && strcmp(id, "0000:65:00.0") != 0) return 6;
  *device = &gpus[strcmp(id, "0000:17:00.0") == 0];
  return 0;
}

int nvmlDeviceGetMemoryInfo(void* device, struct Memory* memory) {
  const unsigned long long gib = 1ull << 30;
  const int first = device == &gpus[0];
  memory->total = (first ? 80 : 40) * gib;
  memory->used = (first ? 3 : 5) * gib;
  memory->free = memory->total - memory->used;
  return 0;
}

int nvmlDeviceGetUtilizationRates(void* device, struct Utilization* utilization) {
  if (device != &gpus[0]) return 3;
  utilization->gpu = 45;
  utilization->memory = 11;
  return 0;
}
