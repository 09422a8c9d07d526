#include "tests/bench/machine.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/cpu_info.h"
#include "engine/base/string_view.h"
#include "tests/bench/fma_peak.h"

namespace upscaled::bench {
namespace {

// Together with the instruction set, this decides the runnable kernels.
constexpr const char* kExtensions[] = {"avx_vnni",    "avx512_vnni", "avx512_bf16",
                                       "avx512_fp16", "amx_int8",    "amx_bf16"};

// The system's flags, each between spaces.
std::string CpuFlags() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("flags")) return line + " ";
  }
  return "";
}

void AppendCache(const char* name, int setting, std::string& text) {
  const long bytes = sysconf(setting);
  if (bytes <= 0) return;
  constexpr long kMib = 1 << 20;
  absl::StrAppend(
      &text, ", ", name, " ",
      bytes < kMib ? absl::StrCat(bytes >> 10, " KiB") : absl::StrCat(bytes >> 20, " MiB"));
}

}  // namespace

std::string DescribeMachine() {
  const cpu::Isa isa = cpu::ListIsas().front();
  std::string text =
      absl::StrCat(CpuModelName(), ": ", AvailableCpuCount(), " CPUs, ", ToAbsl(cpu::IsaName(isa)));
  const std::string flags = CpuFlags();
  for (const char* extension : kExtensions) {
    if (flags.find(absl::StrCat(" ", extension, " ")) != std::string::npos) {
      absl::StrAppend(&text, " ", extension);
    }
  }
  AppendCache("L1d", _SC_LEVEL1_DCACHE_SIZE, text);
  AppendCache("L2", _SC_LEVEL2_CACHE_SIZE, text);
  AppendCache("L3", _SC_LEVEL3_CACHE_SIZE, text);
  absl::StrAppendFormat(&text, ", %.0f GFLOP/s a core (fp32 FMA)", FmaPeakGflops(isa));
  double load = 0;
  if (getloadavg(&load, 1) == 1) absl::StrAppendFormat(&text, ", load %.2f", load);
  return text;
}

void PrintMachine() { std::printf("%s\n", DescribeMachine().c_str()); }

}  // namespace upscaled::bench
