// Tests of failing calls, with the runtime of host_runtime.h.
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/backends/cuda/cuda_backend.h"
#include "engine/backends/cuda/cuda_executable.h"
#include "engine/backends/cuda/profile.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/cached_tile.h"
#include "tests/engine/backends/cuda/host_runtime.h"
#include "tests/engine/backends/random_network.h"
#include "tests/engine/backends/run_tiles.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

class CudaFailureTest : public ::testing::Test {
 protected:
  void SetUp() override {
    test::AppendConv(network_, 16, 3);
    test::AppendConv(network_, 3, 3);
    Start();
  }
  void TearDown() override {
    stream_.reset();
    executable_.reset();
    backend_.reset();
    EXPECT_EQ(test::AllocatedBytes(), 0u);
  }

  void Start(const BackendOptions& options = {}) {
    auto backend = CreateCudaBackend("cuda", options);
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
    auto executable = backend_->Compile(network_, Precision::kExact);
    ASSERT_TRUE(executable.ok()) << executable.status();
    executable_ = *std::move(executable);
    stream_ = backend_->CreateStream();
  }

  absl::Status Run() {
    const TileTask task = test::WholeTask(*executable_, source_.view(), result_.mutable_view());
    return stream_->Run(*executable_, {&task, 1});
  }

  std::mt19937 random_ = test::FreshRandom();
  Network network_ = test::InputAlone();
  Image source_ = test::RandomImage({40, 30, 3, SampleType::kU8}, random_);
  Image result_{{40, 30, 3, SampleType::kU8}};
  std::unique_ptr<Backend> backend_;
  std::shared_ptr<const Executable> executable_;
  std::unique_ptr<Stream> stream_;
};

// With a tile and its kept tensors.
class CudaCachedTileTest : public CudaFailureTest {
 protected:
  void SetUp() override {
    network_ = test::ScaledByItsMean(random_);
    Start();
    memory_ = executable_->CreateActivationCache();
  }
  void TearDown() override {
    memory_.reset();
    CudaFailureTest::TearDown();
  }

  absl::StatusOr<Image> RunImage(ActivationCache* memory) {
    return test::RunCached(*backend_, *executable_, source_, source_, memory);
  }
  // With the memory first, so the failure happens there.
  void ExpectTheSameAsWithout() {
    const auto result = RunImage(memory_.get()), expected = RunImage(nullptr);
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_TRUE(expected.ok()) << expected.status();
    EXPECT_TRUE(test::SameImages(result->view(), expected->view()));
  }

  std::unique_ptr<ActivationCache> memory_;
};

TEST_F(CudaFailureTest, AFailedCallIsNamedAndTheNextRunGoesOn) {
  for (const char* call : {"cudaMemcpyAsync", "cudaMemsetAsync", "cudaEventRecord"}) {
    stream_ = backend_->CreateStream();  // has no graph yet, which would make no such call
    test::FailNextCall(call, cudaErrorInvalidValue);
    const absl::Status status = Run();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << call;
    EXPECT_THAT(Message(status), AllOf(StartsWith("cuda:0: "), HasSubstr(call)));
    EXPECT_TRUE(Run().ok());
  }
}

TEST_F(CudaFailureTest, AFailedCaptureLeavesTheStreamUsable) {
  ASSERT_TRUE(Run().ok());
  test::FailNextCall("cudaGraphInstantiate", cudaErrorInvalidValue);
  EXPECT_EQ(Run().code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(Run().ok());
}

TEST_F(CudaFailureTest, WithoutMemoryForAGraphTheCommandsRunAlone) {
  for (const char* call : {"cudaStreamBeginCapture", "cudaMemsetAsync", "cudaStreamEndCapture",
                           "cudaGraphInstantiate", "cudaGraphLaunch"}) {
    stream_ = backend_->CreateStream();
    ASSERT_TRUE(Run().ok());
    const Image expected = std::exchange(result_, Image(source_.spec()));
    test::FailNextCall(call, cudaErrorMemoryAllocation);
    EXPECT_TRUE(Run().ok()) << call;
    EXPECT_TRUE(test::SameImages(result_.view(), expected.view())) << call;
    const int before = test::CapturedGraphs();
    EXPECT_TRUE(Run().ok()) << call;
    EXPECT_EQ(test::CapturedGraphs() - before, call == std::string("cudaGraphLaunch") ? 0 : 1);
  }
}

// As after an illegal access: everything of the device is gone, and a new backend starts afresh.
TEST_F(CudaFailureTest, ALostContextFailsForGoodAndANewBackendWorks) {
  ASSERT_TRUE(Run().ok());
  const Image expected = test::RunTiles(*backend_, *executable_, source_, {40, 30});
  test::FailNextCall("cudaEventQuery", cudaErrorIllegalAddress);
  EXPECT_EQ(Run().code(), absl::StatusCode::kUnavailable);
  const absl::Status again = Run();
  EXPECT_EQ(again.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(again), HasSubstr("a batch of tiles"));  // the call that spoiled it
  EXPECT_EQ(backend_->Compile(network_, Precision::kExact).status().code(),
            absl::StatusCode::kUnavailable);
  // The old ones may be let go before or after: they free nothing of the new context.
  const std::unique_ptr<Backend> old_backend = std::move(backend_);
  const auto old_executable = executable_;
  std::unique_ptr<Stream> old_stream = std::move(stream_);
  std::thread([this] { Start(); }).join();  // not by the thread that has seen the error
  EXPECT_EQ(old_stream->Run(*old_executable, {}).code(), absl::StatusCode::kUnavailable);
  old_stream.reset();
  const Image result = test::RunTiles(*backend_, *executable_, source_, {40, 30});
  EXPECT_TRUE(test::SameImages(result.view(), expected.view()));
}

// As driver 580 does it on an H100: no other context, for as long as the process lives.
TEST_F(CudaFailureTest, WhereALostContextIsTheLastARestartIsAskedFor) {
  test::SetResetWorks(false);
  test::FailNextCall("cudaEventQuery", cudaErrorIllegalAddress);
  EXPECT_EQ(Run().code(), absl::StatusCode::kUnavailable);
  const auto ask_for_restart = HasSubstr("cannot be used until the server is restarted");
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = CreateCudaBackend("cuda", {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(Message(status),
                AllOf(StartsWith("cuda:0: start of a context: "), ask_for_restart));
  }
  test::SetResetWorks(true);
  Start();
  EXPECT_TRUE(Run().ok());
  // Busy for another reason.
  test::FailNextCall("cudaSetDevice", cudaErrorDevicesUnavailable);
  const absl::Status busy = CreateCudaBackend("cuda", {}).status();
  EXPECT_EQ(busy.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(busy), ::testing::Not(ask_for_restart));
  // Nor was there a context to lose.
  test::FailNextCall("cudaSetDevice", cudaErrorUnknown);
  test::SetResetWorks(false);
  EXPECT_THAT(Message(CreateCudaBackend("cuda", {}).status()), ::testing::Not(ask_for_restart));
  test::SetResetWorks(true);
}

// No test in this process may use the device afterwards: it runs in a child.
using CudaFailureDeathTest = CudaFailureTest;

TEST_F(CudaFailureDeathTest, ADeviceThatDoesNotAnswerIsLostToTheProcess) {
  const auto hang = [this] {
    stream_.reset();
    executable_.reset();
    Start({.answer_limit = absl::Milliseconds(20)});
    if (!Run().ok()) return 1;  // one that answers is never late
    const std::unique_ptr<Stream> other = backend_->CreateStream();
    test::SetAnswers(false);
    const absl::Status hung = Run();
    if (!absl::IsDeadlineExceeded(hung)) return 2;
    std::cerr << hung << "\n";
    // Nothing asks the driver from now on, because it may not return: not other streams, not the
    // destructors of buffers, not a new backend.
    test::SetForbidden(true);
    if (!absl::IsDeadlineExceeded(other->Run(*executable_, {}))) return 3;
    stream_.reset();
    executable_.reset();
    const absl::Status next = CreateCudaBackend("cuda:0", {}).status();
    if (!absl::IsUnavailable(next)) return 4;
    std::cerr << next << "\n";
    return 0;
  };
  EXPECT_EXIT(
      std::_Exit(hang()), ::testing::ExitedWithCode(0),
      "cuda:0: a batch of tiles has not ended after .*until the server is restarted\n"
      ".*cuda:0: it did not answer; the device cannot be used until the server is restarted");
}

// Not after the driver's own limit, which may be hours.
TEST_F(CudaFailureDeathTest, ARunThatIsGivenUpReturns) {
  const auto hang = [this] {
    if (!Run().ok()) return 1;
    test::SetAnswers(false);
    absl::Status status;
    std::thread run([&] { status = Run(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    backend_->GiveUp();
    run.join();
    std::cerr << status << "\n";
    // A call to the driver would block.
    if (!absl::IsUnavailable(CreateCudaBackend("cuda:0", {}).status())) return 2;
    return absl::IsDeadlineExceeded(status) ? 0 : 3;
  };
  EXPECT_EXIT(std::_Exit(hang()), ::testing::ExitedWithCode(0), "cuda:0: a run does not end");
}

TEST_F(CudaFailureDeathTest, WeightsAreNotAwaitedWithoutEnd) {
  const auto hang = [this] {
    Start({.answer_limit = absl::Milliseconds(20)});
    test::SetAnswers(false);
    const absl::Status status = backend_->Compile(network_, Precision::kExact).status();
    std::cerr << status << "\n";
    return absl::IsDeadlineExceeded(status) ? 0 : 1;
  };
  EXPECT_EXIT(std::_Exit(hang()), ::testing::ExitedWithCode(0),
              "cuda:0: a copy to the device has not ended after");
}

TEST_F(CudaFailureTest, ADeviceThatTheKernelsHaveNoCodeForIsUnavailable) {
  test::FailNextCall("cudaFuncGetAttributes", cudaErrorNoKernelImageForDevice);
  const absl::Status status = CreateCudaBackend("cuda", {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(status), StartsWith("cuda:0: the kernels' code: "));
  EXPECT_TRUE(Run().ok());
}

TEST_F(CudaCachedTileTest, GoesWithoutWhereThereIsNoRoom) {
  test::FailNextCall("cudaMalloc", cudaErrorMemoryAllocation);
  ExpectTheSameAsWithout();
}

TEST_F(CudaCachedTileTest, IsSpoiltByARunThatFails) {
  test::FailNextCall("cudaEventRecord", cudaErrorInvalidValue);
  EXPECT_EQ(RunImage(memory_.get()).status().code(), absl::StatusCode::kInternal);
  ExpectTheSameAsWithout();
}

TEST_F(CudaCachedTileTest, MayOutliveItsContext) {
  ASSERT_TRUE(RunImage(memory_.get()).ok());
  test::FailNextCall("cudaEventQuery", cudaErrorIllegalAddress);
  EXPECT_EQ(RunImage(nullptr).status().code(), absl::StatusCode::kUnavailable);
  stream_.reset();
  executable_.reset();
  backend_.reset();
  Start();
  memory_.reset();
  EXPECT_TRUE(RunImage(nullptr).ok());
}

TEST_F(CudaFailureTest, MemoryThatIsOutIsToldInNumbers) {
  test::SetDeviceBytes(test::AllocatedBytes() + (64 << 10));
  const absl::Status status = Run();
  test::SetDeviceBytes(size_t{16} << 30);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("cudaMalloc of 0."),
                                     HasSubstr("MiB for a tile, with"), HasSubstr("MiB free")));
  EXPECT_TRUE(Run().ok());
  // Weights, too.
  test::SetDeviceBytes(test::AllocatedBytes());
  const auto executable = backend_->Compile(network_, Precision::kExact);
  test::SetDeviceBytes(size_t{16} << 30);
  EXPECT_EQ(executable.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(executable.status()), HasSubstr("the weights of layer 'conv1'"));
}

// The first use of a shape is not captured; the second is, once.
TEST_F(CudaFailureTest, OneGraphForEveryShapeThatComesAgain) {
  const int before = test::CapturedGraphs();
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(test::CapturedGraphs(), before);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Run().ok());
  EXPECT_EQ(test::CapturedGraphs(), before + 1);
}

TEST_F(CudaFailureTest, ProfileTellsEveryStep) {
  const auto& own = static_cast<const cuda::CudaExecutable&>(*executable_);
  const auto profile = cuda::ProfileTile(own, {{40, 30}, {0, 0, 40, 30}}, 3);
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(profile->steps.size(), own.program().nodes.size());
  double sum = 0;
  for (const cuda::StepTime& step : profile->steps) sum += step.seconds;
  EXPECT_GT(sum, 0);
  EXPECT_GT(profile->compute_seconds, 0);
}

}  // namespace
}  // namespace upscaled
