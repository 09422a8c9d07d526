// Models' files: into a running server, and out of it for others.
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "absl/synchronization/mutex.h"
#include "client/upscale_client.h"
#include "engine/model/loader.h"
#include "server/results/digest.h"
#include "tests/client/temp_folder.h"
#include "tests/integration/test_server.h"
#include "tests/support/test_image.h"

namespace upscaled::server {
namespace {

using client::MemorySource;
using client::TempFolder;
using client::UpscaleClient;
using client::WriteText;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

using Files = std::map<std::string, std::string>;  // bytes by extension

std::string Sha256Of(const std::string& bytes) {
  return ToHex(DigestOf({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}));
}

class ModelFilesTest : public ::testing::Test {
 protected:
  ServerConfig Config() const {
    ServerConfig config = TestConfig();
    config.model_repositories = {folder_.path(), "engine/model/bundled"};
    config.bundled_models_last = true;
    return config;
  }
  UpscaleClient Admin(const TestServer& server) const {
    return UpscaleClient(server.NewAdminChannel(), {.max_retries = 0});
  }
  absl::StatusOr<Files> Export(const std::string& model, pb::ModelFormat format) {
    pb::ExportModelRequest request;
    request.set_name(model);
    request.set_format(format);
    Files files;
    const absl::Status status =
        Admin(server_).ExportModel(request, [&](const pb::ExportModelResponse& piece) {
          files[piece.extension()] += piece.chunk();
          return absl::OkStatus();
        });
    if (!status.ok()) return status;
    return files;
  }
  absl::StatusOr<pb::AddModelResponse> Add(const std::string& name, const std::string& bytes,
                                           const std::string& sha256 = "", int64_t extra = 0,
                                           const std::string& bin = "", int64_t bin_extra = 0) {
    pb::AddModelStart start;
    start.set_file_name(name);
    start.set_size_bytes(static_cast<int64_t>(bytes.size()) + extra);
    start.set_sha256(sha256);
    start.set_bin_size_bytes(static_cast<int64_t>(bin.size()) + bin_extra);
    std::vector<std::unique_ptr<client::ImageSource>> sources;
    sources.push_back(std::make_unique<MemorySource>(bytes));
    if (!bin.empty()) sources.push_back(std::make_unique<MemorySource>(bin));
    return Admin(server_).AddModel(start, sources);
  }
  std::vector<std::string> FolderNames() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  TempFolder folder_;
  TestServer server_{Config()};
};

TEST_F(ModelFilesTest, WhatOneServerExportsAnotherServes) {
  const absl::StatusOr<Files> files = Export("fast-2x", pb::MODEL_FORMAT_ONNX);
  ASSERT_TRUE(files.ok()) << files.status();
  const std::string& onnx = files->at(".onnx");
  const std::string sha256 = Sha256Of(onnx);
  const auto added = Add("again.onnx", onnx, sha256);
  ASSERT_TRUE(added.ok()) << added.status();
  EXPECT_EQ(added->sha256(), sha256);
  EXPECT_EQ(added->model().name(), "again");
  EXPECT_EQ(added->model().multiply_adds_per_pixel(), 7'992);
  EXPECT_THAT(FolderNames(), ::testing::ElementsAre("again.onnx"));

  std::mt19937 random = test::FreshRandom();
  const std::string image =
      *test::Encode(test::PhotoImage({37, 23, 3, SampleType::kU8}, random).view(), {});
  pb::UpscaleOptions options;
  options.set_model("fast-2x");
  const Outcome ours = UpscaleImage(server_.stub(), options, image);
  options.set_model("again");
  const Outcome again = UpscaleImage(server_.stub(), options, image);
  ASSERT_TRUE(again.status.ok()) << again.status.error_message();
  EXPECT_LE(test::LargestDifference(test::Decode(again.image)->image.view(),
                                    test::Decode(ours.image)->image.view()),
            1);

  const absl::Status twice = Add("again.onnx", onnx).status();
  EXPECT_EQ(twice.code(), absl::StatusCode::kAlreadyExists) << twice;
}

TEST_F(ModelFilesTest, NothingIsLeftOfAFileThatCannotBeServed) {
  const std::string onnx = Export("fast-2x", pb::MODEL_FORMAT_ONNX)->at(".onnx");
  const struct {
    const char *name, *message;
    std::string bytes, sha256 = {};
    int64_t extra = 0;
  } kCases[] = {
      {"../up.onnx", "file_name is '../up.onnx', must be the plain name of a .pth", onnx},
      {".hidden.onnx", "must be the plain name", onnx},
      {"model.exe", "must be the plain name", onnx},
      {"a.onnx", "sha256 is 'abc', must be 64 hexadecimal digits", onnx, "abc"},
      {"a.onnx", "the file's SHA-256 is ", onnx, std::string(64, '0')},
      {"a.onnx", "bytes came, ", onnx, "", 1},
      {"a.onnx", "bytes came that were announced", onnx, "", -1},
      {"a.onnx", "size_bytes is 0, must be in 1..", ""},
      {"a.onnx", "size_bytes is 1099511627776, must be in 1..", "", "", int64_t{1} << 40},
      {"a.pth", "a.pth: is in no known format", "no weights"},
      {"general-2x.onnx", "there is a model 'general-2x'", onnx},
  };
  for (const auto& [name, message, bytes, sha256, extra] : kCases) {
    const absl::Status status = Add(name, bytes, sha256, extra).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr(folder_.path().string())));
    EXPECT_THAT(FolderNames(), IsEmpty()) << message;
  }
  // A refused model keeps its name: a reload does not serve it.
  WriteText(folder_ / "taken/model.json", "{}");
  EXPECT_FALSE(Add("taken.onnx", onnx).ok());
  EXPECT_THAT(FolderNames(), ::testing::ElementsAre("taken"));
}

TEST_F(ModelFilesTest, APairOfFilesIsOneModel) {
  const auto ncnn = Export("fast-2x", pb::MODEL_FORMAT_NCNN);
  ASSERT_TRUE(ncnn.ok()) << ncnn.status();
  const std::string &param = ncnn->at(".param"), &bin = ncnn->at(".bin");
  const struct {
    const char *name, *message;
    std::string bin;
    int64_t bin_extra = 0;
  } kCases[] = {
      {"pair.param", "a .param needs its .bin", ""},
      {"pair.pth", "only a .param has a .bin, and file_name is 'pair.pth'", bin},
      {"pair.param", "bin_size_bytes is 1099511627776, must be in 1..", "", int64_t{1} << 40},
      {"pair.param", "bytes came, ", bin, 1},
      {"pair.param", "bytes came that were announced", bin, -1},
      {"pair.param", "weights end too early", bin.substr(0, 1000)},
  };
  for (const auto& [name, message, sent, extra] : kCases) {
    const absl::Status status = Add(name, param, "", 0, sent, extra).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
    EXPECT_THAT(FolderNames(), IsEmpty()) << message;
  }
  WriteText(folder_ / "pair.bin", "somebody's");
  EXPECT_EQ(Add("pair.param", param, "", 0, bin).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(FolderNames(), ::testing::ElementsAre("pair.bin"));
  std::filesystem::remove(folder_ / "pair.bin");

  const auto added = Add("pair.param", param, Sha256Of(param), 0, bin);
  ASSERT_TRUE(added.ok()) << added.status();
  EXPECT_EQ(added->sha256(), Sha256Of(param));
  EXPECT_EQ(added->bin_sha256(), Sha256Of(bin));
  EXPECT_EQ(added->model().family(), "ncnn");
  EXPECT_THAT(FolderNames(), ::testing::UnorderedElementsAre("pair.param", "pair.bin"));
  pb::UpscaleOptions options;
  options.set_model("pair");
  std::mt19937 random = test::FreshRandom();
  const std::string image =
      *test::Encode(test::PhotoImage({37, 23, 3, SampleType::kU8}, random).view(), {});
  EXPECT_TRUE(UpscaleImage(server_.stub(), options, image).status.ok());
}

TEST_F(ModelFilesTest, AddsWaitForEachOtherAndOneOfANameStays) {
  const std::string onnx = Export("fast-2x", pb::MODEL_FORMAT_ONNX)->at(".onnx");
  const std::string names[] = {"one.onnx", "two.onnx", "two.onnx", "three.onnx"};
  std::map<std::string, int> served;
  absl::Mutex mutex;
  {
    std::vector<std::jthread> threads;
    for (const std::string& name : names) {
      threads.emplace_back([&, name] {
        const auto added = Add(name, onnx);
        const auto code = added.status().code();
        EXPECT_TRUE(added.ok() || code == absl::StatusCode::kAlreadyExists) << added.status();
        absl::MutexLock lock(&mutex);
        served[name] += added.ok();
      });
    }
  }
  EXPECT_THAT(served, ::testing::ElementsAre(Pair("one.onnx", 1), Pair("three.onnx", 1),
                                             Pair("two.onnx", 1)));
  EXPECT_THAT(FolderNames(), ::testing::UnorderedElementsAre("one.onnx", "two.onnx", "three.onnx"));
}

TEST_F(ModelFilesTest, ExportsAreOfOneNetworkInAFormatThatHoldsIt) {
  const absl::StatusOr<Files> ncnn = Export("general-2x", pb::MODEL_FORMAT_NCNN);
  ASSERT_TRUE(ncnn.ok()) << ncnn.status();
  for (const auto& [extension, bytes] : *ncnn) WriteText(folder_ / ("out" + extension), bytes);
  const auto network = LoadNetworkFile(folder_ / "out.param");
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_EQ(network->scale, 2);
  EXPECT_EQ(network->MacsPerOutputPixel(), 32'724);

  const absl::StatusOr<Files> tensors = Export("general-2x", pb::MODEL_FORMAT_SAFETENSORS);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  WriteText(folder_ / "again.safetensors", tensors->at(".safetensors"));
  const auto added = Add("tensors.safetensors", tensors->at(".safetensors"));
  ASSERT_TRUE(added.ok()) << added.status();
  EXPECT_EQ(added->model().architecture(), "espcn");
  EXPECT_EQ(added->model().weight_bytes(), network->WeightCount() * int64_t{sizeof(float)});
  EXPECT_GT(added->model().memory_bytes(), added->model().weight_bytes());
  const auto again = LoadNetworkFile(folder_ / "again.safetensors");
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_EQ(again->layers.size(), network->layers.size());
  for (size_t i = 0; i < again->layers.size(); ++i) {
    EXPECT_EQ(again->layers[i].weights, network->layers[i].weights);
    EXPECT_EQ(again->layers[i].bias, network->layers[i].bias);
    EXPECT_EQ(again->layers[i].activation, network->layers[i].activation);
    EXPECT_EQ(again->layers[i].slope, network->layers[i].slope);
  }
  EXPECT_EQ(again->pad_px, network->pad_px);
  EXPECT_EQ(Export("general-2x", pb::MODEL_FORMAT_UNSPECIFIED).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Export("none", pb::MODEL_FORMAT_ONNX).status().code(), absl::StatusCode::kNotFound);
  pb::ExportModelRequest request;
  request.set_name("general-2x");
  request.set_format(pb::MODEL_FORMAT_ONNX);
  request.set_noise_level(0);
  const absl::Status missing =
      Admin(server_).ExportModel(request, [](const auto&) { return absl::OkStatus(); });
  EXPECT_THAT(std::string(missing.message()), HasSubstr("no network of scale 2 and noise level 0"));
}

TEST(ModelFolderTest, TheBundledModelsTakeNoOthers) {
  ServerConfig config = TestConfig();
  config.bundled_models_last = true;
  TestServer server(config);
  UpscaleClient admin(server.NewAdminChannel(), {.max_retries = 0});
  pb::AddModelStart start;
  start.set_file_name("a.pth");
  std::vector<std::unique_ptr<client::ImageSource>> sources;
  sources.push_back(std::make_unique<MemorySource>("x"));
  const absl::Status status = admin.AddModel(start, sources).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("no --model-repository"));
}

}  // namespace
}  // namespace upscaled::server
