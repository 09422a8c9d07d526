// Proofs of kernels on a fake device: the reference, with a forced kernel that does as told.
#include "engine/proof/kernel_proof.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/backends/layer_profile.h"
#include "engine/backends/reference/reference_backend.h"
#include "engine/graph/pooling.h"
#include "gtest/gtest.h"

namespace upscaled {
namespace {

// The deeds of a kernel.
struct Deeds {
  bool supports = true;
  float error = 0;      // added to one value of every result
  int sum_error = 0;    // units added to one sum of every gathering
  double seconds = 1;   // of every layer
  absl::Status status;  // of every run
};

class StubStream final : public Stream {
 public:
  StubStream(std::unique_ptr<Stream> stream, Deeds deeds)
      : stream_(std::move(stream)), deeds_(std::move(deeds)) {}

  absl::Status Run(const Executable& executable, std::span<const TileTask> tiles) override {
    if (!deeds_.status.ok()) return deeds_.status;
    const absl::Status status = stream_->Run(executable, tiles);
    const MutableImageView& dst = tiles.back().dst;
    dst.row_as<float>(dst.height_px() - 1)[dst.width_px() * 3 - 1] += deeds_.error;
    if (ChannelSums* const sums = tiles.back().pooling->partial_sums; sums != nullptr) {
      ChannelSums error(sums->channels());
      error.Add(sums->channels() - 1, deeds_.sum_error / double{1 << 24});
      sums->Add(error);
    }
    return status;
  }
  absl::StatusOr<std::vector<LayerProfile>> Profile(const Executable& executable,
                                                    const TileTask& /*task*/) override {
    std::vector<LayerProfile> layers(executable.network().layers.size());
    for (LayerProfile& layer : layers) layer.seconds = deeds_.seconds;
    return layers;
  }

 private:
  const std::unique_ptr<Stream> stream_;
  const Deeds deeds_;
};

class StubBackend final : public Backend {
 public:
  StubBackend(std::unique_ptr<Backend> backend, Deeds deeds)
      : backend_(std::move(backend)), deeds_(std::move(deeds)) {}

  std::string_view name() const override { return "stub"; }
  std::string description() const override { return "stub"; }
  absl::StatusOr<std::shared_ptr<const Executable>> Compile(const Network& network,
                                                            Precision /*precision*/) override {
    if (!deeds_.supports) return absl::UnimplementedError("supports no layer");
    return backend_->Compile(network, Precision::kExact);
  }
  std::unique_ptr<Stream> CreateStream() override {
    return std::make_unique<StubStream>(backend_->CreateStream(), deeds_);
  }
  int StreamCount() const override { return 1; }

 private:
  const std::unique_ptr<Backend> backend_;
  const Deeds deeds_;
};

constexpr int kGatedLayers = 18;  // of networks with gates

constexpr ProofCase kSmall = {
    .in_channels = 16, .out_channels = 8, .adds = true, .image = {9, 7}, .tiles = 2};

// `partner`: it does so only if this kernel may serve, too.
absl::StatusOr<ProofResult> Prove(const Deeds& deeds, const std::string& kernel = "new",
                                  const ProofCase& proof = kSmall,
                                  const std::string& partner = "") {
  const ProofBackend create =
      [&](const BackendOptions& options) -> absl::StatusOr<std::unique_ptr<Backend>> {
    auto backend = CreateReferenceBackend({});
    if (!backend.ok()) return backend.status();
    EXPECT_FALSE(options.repairs);
    const auto serves = [&](const std::string& name) {
      return name.empty() || options.kernel == name ||
             std::ranges::find(options.proven_kernels, name) != options.proven_kernels.end();
    };
    return std::make_unique<StubBackend>(*std::move(backend),
                                         serves(kernel) && serves(partner) ? deeds : Deeds{});
  };
  return ProveKernel(create, kernel, proof);
}

TEST(KernelProofTest, TheSameBitsAreRight) {
  const auto result = Prove({.seconds = 0.5});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->supported);
  EXPECT_TRUE(result->right);
  EXPECT_EQ(result->us, 0);  // of a narrow image
}

TEST(KernelProofTest, TheProvenLayerOfWideImagesIsTimed) {
  for (const ProofLayer layer : {ProofLayer::kBetween, ProofLayer::kLast, ProofLayer::kEnlarging,
                                 ProofLayer::kGated, ProofLayer::kPooled}) {
    const bool gated = layer == ProofLayer::kGated;
    const auto result =
        Prove({.seconds = 0.5}, gated ? "new_gates" : "new",
              {.in_channels = 4, .out_channels = 3, .image = {480, 2}, .layer = layer});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(result->right);
    EXPECT_EQ(result->us, (gated ? kGatedLayers : 1) * 0.5e6);  // of all layers with gates
    EXPECT_EQ(result->plain_us, (gated ? kGatedLayers : 1) * 1e6);
  }
}

TEST(KernelProofTest, OneValueOfOneTileIsEnoughToBeWrong) {
  const auto result = Prove({.error = 1e-3f});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->right);
  EXPECT_NEAR(result->worst, 1e-3, 1e-4);
}

TEST(KernelProofTest, RoundingIsAllowedWhereAnotherInstructionAddsUp) {
  ProofCase proof = kSmall;
  proof.tolerance = 2e-3f;
  auto result = Prove({.error = 1e-3f}, "new", proof);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->right);
  result = Prove({.error = 3e-3f}, "new", proof);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->right);
  result = Prove({.error = std::nanf("")}, "new", proof);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->right);
}

// A part of the shipped kernels is allowed, not forced.
TEST(KernelProofTest, AnEpilogueIsProvenWithinTheShippedKernels) {
  auto result = Prove({}, "new_epilogue");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->right);
  result = Prove({.error = 1e-3f}, "new_epilogue");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->right);
}

TEST(KernelProofTest, GatesAreProvenByNetworksWithGatesAlone) {
  ProofCase proof = kSmall;
  EXPECT_FALSE(Prove({}, "new_gates", proof)->supported);
  proof.in_channels = 8;
  proof.layer = ProofLayer::kGated;
  EXPECT_FALSE(Prove({}, "new", proof)->supported);
  const auto result = Prove({}, "new_gates", proof);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->right);
  EXPECT_FALSE(Prove({.error = 1e-2f}, "new_gates", proof)->right);
}

// The server uses gates with the other new kernels.
TEST(KernelProofTest, GatesAreProvenNextToTheOtherNewKernels) {
  for (const std::string_view kernel : ListJoinedKernels()) {
    int wrong = 0;
    for (ProofCase proof : ListProofCases()) {
      if (proof.layer != ProofLayer::kGated || proof.image.width > 33) continue;
      proof.in_channels = proof.out_channels = 8;
      proof.tolerance = 0;
      const auto result = Prove({.error = 1e-3f}, "new_gates", proof, std::string(kernel));
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(result->right, !proof.joined) << Describe(proof);
      wrong += !result->right;
    }
    EXPECT_GT(wrong, 0) << kernel;
  }
}

// Only the sums show whether they are right: results take the means as given.
TEST(KernelProofTest, SumsOfPoolingsAreEqualToTheUnit) {
  ProofCase proof = kSmall;
  proof.layer = ProofLayer::kPooled;
  auto result = Prove({}, "new", proof);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->right);
  result = Prove({.sum_error = 1}, "new", proof);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->right);
  proof.layer = ProofLayer::kBetween;  // nothing is pooled
  EXPECT_TRUE(Prove({.sum_error = 1}, "new", proof)->right);
  for (const bool wide : {false, true}) {
    EXPECT_TRUE(std::ranges::any_of(ListProofCases(), [&](const ProofCase& listed) {
      return listed.layer == ProofLayer::kPooled && (listed.out_channels > 64) == wide &&
             listed.tolerance == 0;
    }));
  }
}

// Also where the shipped kernels give the same.
TEST(KernelProofTest, NanIsWrong) {
  const auto result = Prove({.error = std::nanf("")}, "");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->right);
}

TEST(KernelProofTest, WhatIsNotSupportedProvesNothing) {
  const auto result = Prove({.supports = false});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->supported);
  EXPECT_FALSE(result->right);
}

TEST(KernelProofTest, AFailureIsTheBackends) {
  EXPECT_EQ(Prove({.status = absl::UnavailableError("lost")}).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST(KernelProofTest, CasesDiffer) {
  std::set<std::string> names;
  for (const ProofCase& proof : ListProofCases()) {
    EXPECT_TRUE(names.insert(Describe(proof)).second) << Describe(proof);
  }
  EXPECT_EQ(Describe(kSmall), "16-8 + skip, 9x7, 2 tiles");
}

// Networks of every kind of layer run, at odd sizes, and one wrong value of theirs is noticed.
TEST(KernelProofTest, EveryKindOfLayerIsProven) {
  for (ProofCase proof : ListProofCases()) {
    if (proof.layer == ProofLayer::kBetween || proof.image.width > 123) continue;
    SCOPED_TRACE(Describe(proof));
    proof.in_channels = 8;
    if (proof.layer >= ProofLayer::kEnlarging) proof.out_channels = 8;
    proof.image = {proof.image.width % 16, proof.image.height % 16};
    const bool gated = proof.layer == ProofLayer::kGated;
    const std::string kernel = gated ? "new_gates" : "new";
    auto result = Prove({}, kernel, proof);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(result->right);
    result = Prove({.error = 1e-2f}, kernel, proof);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_FALSE(result->right);
  }
}

}  // namespace
}  // namespace upscaled
