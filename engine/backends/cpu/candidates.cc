#include "engine/backends/cpu/candidates.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/cpu/kernel_candidate.h"
#include "engine/base/cpu_info.h"
#include "engine/base/string_view.h"

namespace upscaled::cpu {
namespace {

class Candidates final : public KernelCandidates {
 public:
  Candidates(const Layer& layer, Isa isa) : layer_(layer), isa_(isa) {
    for (const KernelInfo& info : ListKernels()) {
      const bool wanted = !info.baseline && info.precision == precision();
      if (wanted && info.supports(layer)) names_.emplace_back(info.name);
    }
  }

  std::string device() const override { return DeviceName(isa_); }
  const Layer& layer() const override { return layer_; }
  Precision precision() const override { return Precision::kExact; }
  std::vector<std::string> names() const override { return names_; }
  std::unique_ptr<LayerCandidate> Try(const std::string& name, Size input) const override {
    return std::make_unique<KernelCandidate>(layer_, *FindKernel(name), isa_, input);
  }

 private:
  const Layer& layer_;
  const Isa isa_;
  std::vector<std::string> names_;
};

}  // namespace

std::string DeviceName(Isa isa) {
  return absl::StrCat("cpu, ", CpuModelName(), ", ", ToAbsl(IsaName(isa)));
}

const KernelInfo* ChooseKernel(const Layer& layer, const KernelInfo* forced, Isa isa,
                               KernelChooser* chooser) {
  const bool is_forced = forced != nullptr && forced->supports(layer);
  if (chooser == nullptr || is_forced || layer.weights.empty()) return ChooseKernel(layer, forced);
  const Candidates candidates(layer, isa);
  if (candidates.names().size() < 2) return ChooseKernel(layer, forced);
  return FindKernel(chooser->Choose(candidates));
}

}  // namespace upscaled::cpu
