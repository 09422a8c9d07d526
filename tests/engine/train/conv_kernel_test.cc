// Every way to compute a convolution of floats, on every instruction set, against the direct one of
// doubles, whose derivatives are held to central differences.
#include "engine/train/conv_kernel.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/engine/train/conv_kernel_fixture.h"

namespace upscaled::train {
namespace {

TEST_P(ConvKernelTest, GivesWhatDoublesGive) {
  Conv<double> reference(layer_);
  const Results<double> expected = Run(reference);
  const ConvShape shape{GetParam().in, GetParam().out, GetParam().kernel_px, GetParam().padding_px};
  for (const cpu::Isa isa : cpu::ListIsas()) {
    for (const ConvCandidate<float>& kernel : ConvKernels<float>()) {
      if (!kernel.supports(shape)) continue;
      SCOPED_TRACE(absl::StrCat(std::string(cpu::IsaName(isa)), " ", std::string(kernel.name)));
      const auto make = [&](const ConvShape&) { return kernel.make(shape, isa); };
      Conv<float> conv(layer_, make, isa);
      const Results<float> found = Run(conv);
      const double limit = kernel.name == "direct" ? 1e-5 : 1e-4;
      EXPECT_LE(Error(expected.dst.values(), found.dst.values()), limit);
      EXPECT_LE(Error(expected.d_src.values(), found.d_src.values()), limit);
      EXPECT_LE(Error(expected.d_params, found.d_params), limit);
      const Results<float> again = Run(conv);
      EXPECT_EQ(again.dst.values(), found.dst.values());
      EXPECT_EQ(again.d_src.values(), found.d_src.values());
      EXPECT_EQ(again.d_params, found.d_params) << "something is left of the last call";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, ConvKernelTest, ::testing::ValuesIn(kConvCases));

}  // namespace
}  // namespace upscaled::train
