// A driver of two GPUs, as far as GpuProbe asks it: CUDA's names of them.
#include <stdio.h>

static const char* const bus_ids[] = {"0000:65:00.0", "0000:17:00.0"};

int cuInit(unsigned int flags) { return flags == 0 ? 0 : 1; }

int cuDeviceGet(int* device, int ordinal) {
  if (ordinal < 0 || ordinal > 1) return 101;
  *device = ordinal + 7;
  return 0;
}

int cuDeviceGetPCIBusId(char* id, int bytes, int device) {
  snprintf(id, (size_t)bytes, "%s", bus_ids[device - 7]);
  return 0;
}
