#include "engine/backends/cpu/cpu_backend.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/backends/cpu/cpu_executable.h"
#include "engine/backends/cpu/cpu_stream.h"
#include "engine/backends/cpu/kernels/isa.h"
#include "engine/backends/cpu/kernels/kernel_list.h"
#include "engine/backends/cpu/spare_buffers.h"
#include "engine/backends/cpu/team.h"
#include "engine/base/cpu_info.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"

namespace upscaled {
namespace {

using cpu::Isa;

// Counted up when a release computes other bytes of the same network. 2: rows of blocks lag.
// 3: attention sums a query's values in its lane; GELU is one exponential.
// 4: products with factors of the image have means of their own.
constexpr int kArithmeticVersion = 4;

class CpuBackend : public Backend {
 public:
  CpuBackend(int stream_count, Isa isa, const cpu::KernelEntry* forced_kernel,
             const BackendOptions& options)
      : stream_count_(stream_count),
        isa_(isa),
        forced_kernel_(forced_kernel),
        chooser_(options.chooser),
        always_stages_(options.always_stages),
        poisons_memory_(options.poisons_memory),
        helpers_(std::make_shared<cpu::HelperPool>(stream_count)),
        spare_buffers_(std::make_shared<cpu::SpareBuffers>(options.poisons_memory)) {}

  std::string_view name() const override { return "cpu"; }
  std::string description() const override {
    return absl::StrCat("CPU, ", ToAbsl(cpu::IsaName(isa_)), ", ", stream_count_,
                        stream_count_ == 1 ? " thread" : " threads");
  }
  std::string arithmetic() const override {  // the same for any number of threads
    return absl::StrCat("CPU, ", ToAbsl(cpu::IsaName(isa_)), ", version ", kArithmeticVersion);
  }
  absl::Status CheckPrecision(Precision precision) const override {
    if (precision != Precision::kFast || cpu::HasVnni(isa_)) return absl::OkStatus();
    return absl::UnimplementedError(absl::StrCat(
        "the cpu backend has no precision '", ToAbsl(PrecisionName(precision)), "' on ",
        ToAbsl(cpu::IsaName(isa_)), ", only 'exact': it takes avx512_vnni or avx512_fp16"));
  }
  absl::StatusOr<std::shared_ptr<const Executable>> Compile(const Network& network,
                                                            Precision precision) override {
    RETURN_IF_ERROR(CheckPrecision(precision));
    return cpu::CpuExecutable::Create(network, isa_, forced_kernel_, precision, chooser_.get(),
                                      always_stages_, spare_buffers_);
  }
  absl::StatusOr<MemoryNeed> PlanMemory(const Network& network,
                                        Precision precision) const override {
    RETURN_IF_ERROR(CheckPrecision(precision));
    return cpu::CpuExecutable::PlanMemory(network, isa_, forced_kernel_, precision, always_stages_);
  }
  std::unique_ptr<Stream> CreateStream() override {
    return std::make_unique<cpu::CpuStream>(helpers_, poisons_memory_);
  }
  void ReleaseSpareMemory() override { spare_buffers_->Clear(); }
  int StreamCount() const override { return stream_count_; }

 private:
  const int stream_count_;
  const Isa isa_;
  const cpu::KernelEntry* const forced_kernel_;   // null: the best for each layer
  const std::shared_ptr<KernelChooser> chooser_;  // null: the order of the list
  const bool always_stages_;
  const bool poisons_memory_;
  const std::shared_ptr<cpu::HelperPool> helpers_;
  const std::shared_ptr<cpu::SpareBuffers> spare_buffers_;
};

template <typename Range, typename NameOf>
std::string JoinNames(const Range& range, NameOf name_of) {
  return absl::StrJoin(range, ", ",
                       [&](std::string* out, const auto& item) { out->append(name_of(item)); });
}

absl::StatusOr<Isa> ChooseIsa(const std::string& name) {
  const std::vector<Isa> isas = cpu::ListIsas();
  if (name.empty()) return isas.front();
  for (const Isa isa : isas) {
    if (cpu::IsaName(isa) == name) return isa;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "cpu_isa '", name, "' is not one that this machine runs: ", JoinNames(isas, cpu::IsaName)));
}

absl::StatusOr<const cpu::KernelEntry*> ChooseForcedKernel(const std::string& name) {
  for (const std::string_view missing : cpu::ListMissingKernels()) {
    if (missing != name) continue;
    return absl::UnimplementedError(
        absl::StrCat("kernel '", name, "' is not built: its library was not found"));
  }
  return FindForcedKernel("cpu", cpu::ListKernels(), name);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> CreateCpuBackend(const BackendOptions& options) {
  if (options.threads < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("threads is ", options.threads, ", must be 0 (automatic) or more"));
  }
  ASSIGN_OR_RETURN(const Isa isa, ChooseIsa(options.cpu_isa));
  ASSIGN_OR_RETURN(const cpu::KernelEntry* kernel, ChooseForcedKernel(options.kernel));
  const int threads = options.threads > 0 ? options.threads : AvailableCpuCount();
  return std::make_unique<CpuBackend>(threads, isa, kernel, options);
}

}  // namespace upscaled
