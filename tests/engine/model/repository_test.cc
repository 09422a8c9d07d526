#include "engine/model/repository.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/golden_files.h"
#include "tests/engine/model/ncnn_files.h"
#include "tests/engine/model/onnx_files.h"
#include "tests/engine/model/published_shapes.h"
#include "tests/engine/model/weights_files.h"

namespace upscaled {
namespace {

using std::filesystem::path;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using test::operator+;
using ::testing::Pair;

constexpr char kCard[] = R"({"name": "tiny", "family": "espcn", "version": 3, "format": "ncnn",
    "files": {"param": "m.param", "bin": "m.bin"}, "scale": 2, "noise_levels": [1], "pad_px": 1,
    "border": "replicate", "align_px": 1, "licence": "CC0-1.0", "style": "art",
    "description": "for tests", "precisions": ["exact", "fast"]})";

class RepositoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "models.XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const path& file, const std::string& content) {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file, std::ios::binary) << content;
  }
  // 3x3 to 12 channels and a pixel shuffle: scale 2, pad 1.
  void WriteWeights(const path& stem) {
    test::NcnnFiles files;
    files.Line("Input in 0 1 x").Line("Convolution conv 1 1 x y 0=12 1=3 5=1 6=324");
    files.Line("PixelShuffle shuffle 1 1 y z 0=2").Tag(0).Zeros(324 + 12);
    Write(stem.string() + ".param", files.param());
    Write(stem.string() + ".bin", files.bin);
  }
  void WriteModel(const std::string& card) {
    WriteWeights("tiny/m");
    Write("tiny/model.json", card);
  }
  // Why the folder's first model is refused that is; OK when none is.
  absl::Status Refusal() {
    const auto repository = ModelRepository::Open({root_});
    if (!repository.ok()) return repository.status();
    return repository->refused().empty() ? absl::OkStatus() : repository->refused().front().why;
  }
  void ExpectRefusal(absl::StatusCode code, const std::string& message) {
    const absl::Status refusal = Refusal();
    EXPECT_EQ(refusal.code(), code) << refusal;
    EXPECT_THAT(std::string(refusal.message()), HasSubstr(message));
  }
  // The card with one piece of its text replaced.
  static std::string CardWith(const std::string& from, const std::string& to) {
    std::string card = kCard;
    const size_t at = card.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return card.replace(at, from.size(), to);
  }

  path root_;
};

TEST_F(RepositoryTest, ReadsACardAndItsWeights) {
  WriteModel(kCard);
  Write("notes/readme.txt", "no model");
  Write("file", "no folder");
  const auto repository = ModelRepository::Open({root_});
  ASSERT_TRUE(repository.ok()) << repository.status();
  ASSERT_EQ(repository->models().size(), 1u);
  const ModelCard& card = repository->models()[0];
  EXPECT_EQ(card.name, "tiny");
  EXPECT_EQ(card.family, "espcn");
  EXPECT_EQ(card.style, "art");
  EXPECT_EQ(card.licence, "CC0-1.0");
  EXPECT_EQ(card.description, "for tests");
  EXPECT_EQ(card.version, 3);
  EXPECT_EQ(card.pad_px, 1);
  EXPECT_THAT(card.Scales(), ElementsAre(2));
  EXPECT_THAT(card.NoiseLevels(), ElementsAre(1));
  EXPECT_THAT(card.precisions, ElementsAre(Precision::kExact, Precision::kFast));
  EXPECT_EQ(card.Find(2, kNoDenoise), nullptr);
  const ModelVariant* variant = card.Find(2, 1);
  ASSERT_NE(variant, nullptr);
  const auto network = LoadNetwork(card, *variant);
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_EQ(network->name, "tiny/m");
  EXPECT_EQ(network->pad_px, 1);
}

TEST_F(RepositoryTest, FindListsTheNamesThereAre) {
  WriteModel(kCard);
  const auto repository = ModelRepository::Open({root_});
  ASSERT_TRUE(repository.ok()) << repository.status();
  EXPECT_TRUE(repository->Find("tiny").ok());
  const auto missing = repository->Find("huge");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(missing.status().message(), "no model 'huge', there are: tiny");
}

TEST_F(RepositoryTest, SeveralVariants) {
  WriteWeights("tiny/a");
  WriteWeights("tiny/b");
  Write("tiny/model.json", R"({"name": "tiny", "family": "x", "variants": [
      {"scale": 2, "files": {"param": "a.param", "bin": "a.bin"}},
      {"scale": 2, "noise_level": 3, "files": {"param": "b.param", "bin": "b.bin"}}]})");
  const auto repository = ModelRepository::Open({root_});
  ASSERT_TRUE(repository.ok()) << repository.status();
  const ModelCard& card = repository->models()[0];
  EXPECT_THAT(card.NoiseLevels(), ElementsAre(-1, 3));
  EXPECT_EQ(card.Find(2, 3)->weights, root_ / "tiny/b.param");
  EXPECT_THAT(card.precisions, ElementsAre(Precision::kExact));
}

TEST_F(RepositoryTest, ACardOfAnOnnxModel) {
  Write("tiny/a.onnx", test::OnnxFile().Add({"Relu", {"x"}, "out"}).bytes());
  Write("tiny/model.json", R"({"name": "tiny", "family": "x", "format": "onnx", "scale": 1,
      "files": {"onnx": "a.onnx"}})");
  const auto repository = ModelRepository::Open({root_});
  ASSERT_TRUE(repository.ok()) << repository.status();
  const ModelCard& card = repository->models()[0];
  const auto network = LoadNetwork(card, card.variants[0]);
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_EQ(network->name, "tiny/a");
  Write("tiny/a.onnx", test::OnnxFile().Add({"Loop", {"x"}, "out"}).bytes());
  absl::Status status = LoadNetwork(card, card.variants[0]).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("tiny/a.onnx has changed since the models were read"));
  const auto again = repository->Reopen();
  ASSERT_TRUE(again.ok()) << again.status();
  status = LoadNetwork(again->models()[0], again->models()[0].variants[0]).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("tiny/a.onnx: node 0 'the_out' (Loop): is control flow"));
}

TEST_F(RepositoryTest, EarlierDirectoriesWinAName) {
  WriteWeights("first/upconv_7/scale2.0x_model");
  WriteWeights("second/upconv_7/noise1_scale2.0x_model");
  WriteWeights("second/other/noise1_scale2.0x_model");
  const auto repository = ModelRepository::Open({root_ / "first", root_ / "second"});
  ASSERT_TRUE(repository.ok()) << repository.status();
  ASSERT_EQ(repository->models().size(), 2u);
  EXPECT_THAT((*repository->Find("upconv_7"))->NoiseLevels(), ElementsAre(kNoDenoise));
}

TEST_F(RepositoryTest, HiddenFoldersAreNotLookedAt) {
  WriteWeights("upconv_7/scale2.0x_model");
  WriteWeights(".old-upconv_7/scale2.0x_model");
  Write(".fetching-cunet/half.part", "no model");
  Write(".fetching-other/model.json", "{");
  const auto repository = ModelRepository::Open({root_});
  ASSERT_TRUE(repository.ok()) << repository.status();
  ASSERT_EQ(repository->models().size(), 1u);
  EXPECT_EQ(repository->models().front().name, "upconv_7");
}

TEST_F(RepositoryTest, APathThatIsTooLongIsAnError) {
  const auto repository = ModelRepository::Open({std::string(5000, 'x')});
  EXPECT_EQ(repository.status().code(), absl::StatusCode::kNotFound) << repository.status();
}

TEST_F(RepositoryTest, KnownFileNamesNeedNoCard) {
  const std::string folder = "models-upconv_7_anime_style_art_rgb";
  WriteWeights(folder + "/scale2.0x_model");
  WriteWeights(folder + "/noise0_scale2.0x_model");
  WriteWeights(folder + "/noise3_scale2.0x_model");
  WriteWeights(folder + "/noise3_model");
  WriteWeights(folder + "/model");
  Write(folder + "/scale2.0x_model.json", "[]");
  Write(folder + "/noise1_scale2.0x_model.json", "[]");
  WriteWeights("realcugan/up2x-conservative");
  WriteWeights("realcugan/up3x-denoise2x");
  WriteWeights("realcugan/up2x-no-denoise");
  const auto repository = ModelRepository::Open({root_});
  ASSERT_TRUE(repository.ok()) << repository.status();
  const ModelCard& waifu2x = **repository->Find(folder);
  EXPECT_EQ(waifu2x.family, "upconv_7");
  EXPECT_EQ(waifu2x.style, "art");
  EXPECT_EQ(waifu2x.variants.size(), 5u);
  EXPECT_THAT(waifu2x.NoiseLevels(), ElementsAre(-1, 0, 1, 3));
  EXPECT_EQ(waifu2x.Find(2, -1)->weights.extension(), ".param");
  EXPECT_EQ(waifu2x.Find(2, 1)->weights.extension(), ".json");
  EXPECT_NE(waifu2x.Find(1, 3), nullptr);
  EXPECT_THAT(waifu2x.precisions, ElementsAre(Precision::kExact, Precision::kFast));
  const ModelCard& realcugan = **repository->Find("realcugan");
  EXPECT_THAT(realcugan.precisions, ElementsAre(Precision::kExact));
  EXPECT_NE(realcugan.Find(2, -1), nullptr);
  EXPECT_NE(realcugan.Find(2, 0), nullptr);
  EXPECT_NE(realcugan.Find(3, 2), nullptr);
}

TEST_F(RepositoryTest, RealesrganKeepsSeveralModelsInOneFolder) {
  for (const char* stem : {"realesr-animevideov3-x2", "realesr-animevideov3-x3",
                           "realesr-animevideov3-x4", "realesrgan-x4plus",
                           "realesrgan-x4plus-anime", "realesrnet-x4plus", "realesrgan-x4plus-"}) {
    WriteWeights(std::string("models/") + stem);
  }
  const auto repository = ModelRepository::Open({root_});
  ASSERT_TRUE(repository.ok()) << repository.status();
  ASSERT_EQ(repository->models().size(), 5u);
  const ModelCard& video = **repository->Find("realesr-animevideov3");
  EXPECT_THAT(video.Scales(), ElementsAre(2, 3, 4));
  EXPECT_EQ(video.family, "realesr");
  EXPECT_EQ(video.style, "anime");
  const ModelCard& photo = **repository->Find("realesrgan-x4plus");
  EXPECT_THAT(photo.Scales(), ElementsAre(4));
  EXPECT_THAT(photo.NoiseLevels(), ElementsAre(kNoDenoise));
  EXPECT_EQ(photo.style, "general");
  EXPECT_EQ((*repository->Find("realesrgan-x4plus-"))->family, "ncnn") << "a name of its own";
  EXPECT_EQ((*repository->Find("realesrgan-x4plus-anime"))->Find(4, kNoDenoise)->weights,
            root_ / "models/realesrgan-x4plus-anime.param");
  std::filesystem::remove(root_ / "models/realesrgan-x4plus.bin");
  ExpectRefusal(absl::StatusCode::kNotFound, "model 'realesrgan-x4plus': there is no file");
}

TEST_F(RepositoryTest, BrokenCardsNameFileAndField) {
  const auto invalid = absl::StatusCode::kInvalidArgument;
  const struct {
    std::string card, message;
  } kCases[] = {
      {"{", "tiny/model.json: is no JSON object"},
      {"[]", "is no JSON object"},
      {R"({"name": "tiny", "scale": 2, "scale": 4})", "has 'scale' twice"},
      {R"({"name": "tiny", "files": {"param": "a", "param": "b"}})", "has 'param' twice"},
      {CardWith("\"name\": \"tiny\"", "\"name\": \"big\""),
       "'name' is 'big', must be that of its folder 'tiny'"},
      {CardWith("\"family\": \"espcn\", ", ""), "needs a string 'family'"},
      {CardWith("\"version\": 3", "\"version\": 0"),
       "'version' is 0, must be an integer in 1..1000000"},
      {CardWith("\"version\": 3", "\"version\": 1e99"), "'version' is 1e+99"},
      {CardWith("\"version\": 3", "\"version\": 18446744073709551615"),
       "'version' is 18446744073709551615"},
      {CardWith("\"format\": \"ncnn\"", "\"format\": \"keras\""),
       "'format' is 'keras', must be one of 'ncnn', 'waifu2x-json', 'onnx'"},
      {CardWith("\"format\": \"ncnn\"", "\"format\": \"onnx\""), "needs a string 'onnx'"},
      {CardWith("\"scale\": 2", "\"scale\": \"2\""), "'scale' is \"2\""},
      {CardWith("\"scale\": 2, ", ""), "needs a number 'scale'"},
      {CardWith("[1]", "[4]"), "'noise_levels' is 4, must be an integer in -1..3"},
      {CardWith("[1]", "[18446744073709551615]"),
       "'noise_levels' is 18446744073709551615, must be an integer in -1..3"},
      {CardWith("\"version\": 3", "\"version\": \"" + std::string(99, 'x') + "\""),
       "'version' is \"" + std::string(59, 'x') + "..., must be an integer"},
      {CardWith("\"version\": 3", "\"version\": [[[[[[0]]]]]]"),
       "tiny/model.json: is nested more than 6 levels deep"},
      {CardWith("[1]", "[1, 2]"), "'noise_levels' must be an array of one level"},
      {CardWith("m.param", "../m.param"), "file '../m.param' must be a plain file name"},
      {CardWith("m.bin", "n.bin"), "'bin' is 'n.bin', beside 'm.param' it must be 'm.bin'"},
      {CardWith("replicate", "zero"), "'border' is 'zero', must be 'replicate'"},
      {CardWith("\"fast\"", "\"slow\""), "'precisions' is [\"exact\",\"slow\"]"},
      {CardWith("\"style\": \"art\"", "\"aliases\": [\"a\", \"\"]"),
       "'aliases' is [\"a\",\"\"], must be an array of names"},
      {CardWith("\"style\": \"art\"", "\"aliases\": \"a\""), "'aliases' is \"a\", must be"},
      {CardWith("\"align_px\": 1", "\"cell_px\": 127"),
       "'cell_px' is 127, must be an integer in 128..1024"},
      {CardWith("\"style\"", "\"sytle\""), "has an unknown field 'sytle'; known are name, family"},
  };
  for (const auto& test_case : kCases) {
    SCOPED_TRACE(test_case.message);
    WriteModel(test_case.card);
    ExpectRefusal(invalid, test_case.message);
  }
}

TEST_F(RepositoryTest, MissingThings) {
  WriteModel(kCard);
  std::filesystem::remove(root_ / "tiny/m.bin");
  ExpectRefusal(absl::StatusCode::kNotFound, "model 'tiny': there is no file");
  const auto repository = ModelRepository::Open({root_ / "nowhere"});
  EXPECT_EQ(repository.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(repository.status().message()), HasSubstr("nowhere: No such file"));
}

TEST_F(RepositoryTest, CardMustAgreeWithTheLayers) {
  for (const auto& [from, to, message] :
       {std::tuple{"\"pad_px\": 1", "\"pad_px\": 5",
                   "model 'tiny' says pad_px 5, the layers need 1"},
        {"\"align_px\": 1", "\"align_px\": 2", "says align_px 2, the layers need 1"},
        {"\"scale\": 2", "\"scale\": 3", "says scale 3, the layers need 2"}}) {
    WriteModel(CardWith(from, to));
    const auto repository = ModelRepository::Open({root_});
    ASSERT_TRUE(repository.ok()) << repository.status();
    const ModelCard& card = repository->models()[0];
    const auto network = LoadNetwork(card, card.variants[0]);
    EXPECT_EQ(network.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(network.status().message()), HasSubstr(message));
  }
}

// Compact's tensors for x2, with or without PReLU.
std::string CompactWeights(bool prelu) {
  std::vector<test::NamedShape> shapes = test::ConvShapes("body.0", 4, 3, 3);
  if (prelu) shapes.push_back({"body.1.weight", {4}});
  for (const test::NamedShape& shape : test::ConvShapes("body.2", 12, 4, 3)) {
    shapes.push_back(shape);
  }
  return test::SafetensorsOf(shapes);
}

constexpr char kWeightsCard[] = R"({"name": "net", "family": "compact", "scale": 2,
    "format": "safetensors", "files": {"safetensors": "n.safetensors"}})";

TEST_F(RepositoryTest, AFileOfWeightsIsAModel) {
  Write("2x Some Model.safetensors", CompactWeights(true));
  Write(".half-copied.pth", "PK");
  Write("notes.txt", "no model");
  const auto repository = ModelRepository::Open({root_});
  ASSERT_TRUE(repository.ok()) << repository.status();
  ASSERT_EQ(repository->models().size(), 1u);
  const ModelCard& card = repository->models()[0];
  EXPECT_EQ(card.name, "2x Some Model");
  EXPECT_EQ(card.family, "compact");
  EXPECT_THAT(card.Scales(), ElementsAre(2));
  const auto network = LoadNetwork(card, card.variants[0]);
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_EQ(network->scale, 2);

  Write("4x-Other.pth", "PK\x03\x04");
  ExpectRefusal(absl::StatusCode::kInvalidArgument, "4x-Other.pth: is no zip file");
  const std::string pickle = test::Pickle(
      "}" + test::PickleString("x") +
      test::PickleTensor(
          {.name = "x", .storage = "0", .storage_values = 1, .shape = {1}, .strides = {1}}) +
      "s");
  Write("4x-Other.pth", test::PytorchZip(pickle, {{.name = "0", .bytes = "1234"}}));
  ExpectRefusal(absl::StatusCode::kUnimplemented,
                "4x-Other.pth: has the tensors of no known architecture ('x' and so on)");
}

TEST_F(RepositoryTest, ABareFileHasANameThatCanBeShown) {
  Write("caf\xe9.safetensors", CompactWeights(true));
  ExpectRefusal(absl::StatusCode::kInvalidArgument, "is no text in UTF-8");
  EXPECT_EQ(ModelRepository::Open({root_})->refused().front().name, "caf\\xe9");
}

TEST_F(RepositoryTest, ABareOnnxFileIsAModel) {
  Write("1x-relu.onnx", test::OnnxFile().Add({"Relu", {"x"}, "out"}).bytes());
  const auto repository = ModelRepository::Open({root_});
  ASSERT_TRUE(repository.ok()) << repository.status();
  const ModelCard& card = **repository->Find("1x-relu");
  EXPECT_EQ(card.family, "onnx");
  EXPECT_THAT(card.Scales(), ElementsAre(1));
  EXPECT_TRUE(LoadNetwork(card, card.variants[0]).ok());
}

std::vector<std::string> Names(const ModelRepository& repository) {
  std::vector<std::string> names;
  for (const ModelCard& card : repository.models()) names.push_back(card.name);
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> Refused(const ModelRepository& repository) {
  std::vector<std::string> names;
  for (const RefusedModel& refused : repository.refused()) names.push_back(refused.name);
  std::sort(names.begin(), names.end());
  return names;
}

TEST_F(RepositoryTest, AnNcnnPairOfAnyNameIsAModel) {
  WriteWeights("4x-any name");
  WriteWeights("UPPER");
  std::filesystem::rename(root_ / "UPPER.param", root_ / "UPPER.PARAM");
  std::filesystem::rename(root_ / "UPPER.bin", root_ / "UPPER.BIN");
  WriteWeights("realesr-animevideov3-x2");
  WriteWeights("scale2.0x_model");
  Write("4x-any name.model.json", R"({"licence": "MIT"})");
  const auto repository = ModelRepository::Open({root_});
  ASSERT_TRUE(repository.ok()) << repository.status();
  EXPECT_THAT(Refused(*repository), ElementsAre());
  EXPECT_THAT(Names(*repository),
              ElementsAre("4x-any name", "UPPER", "realesr-animevideov3", "scale2.0x_model"));
  for (const ModelCard& card : repository->models()) {
    EXPECT_THAT(card.Scales(), ElementsAre(2)) << card.name;
    const auto network = LoadNetwork(card, card.variants[0]);
    EXPECT_TRUE(network.ok()) << network.status();
  }
  const ModelCard& any = **repository->Find("4x-any name");
  EXPECT_EQ(any.family, "ncnn");
  EXPECT_EQ(any.licence, "MIT");
  EXPECT_EQ(FilesOf((*repository->Find("UPPER"))->variants[0]).back(), root_ / "UPPER.BIN");
}

TEST_F(RepositoryTest, APublishedFolderMayItselfBeTheDirectory) {
  WriteWeights("models-cunet/scale2.0x_model");
  WriteWeights("models-cunet/noise1_scale2.0x_model");
  WriteWeights("models-cunet/other");
  for (const char* spelling : {"models-cunet", "models-cunet/", "models-cunet/."}) {
    const auto repository = ModelRepository::Open({root_ / spelling});
    ASSERT_TRUE(repository.ok()) << repository.status();
    EXPECT_THAT(Refused(*repository), ElementsAre());
    EXPECT_THAT(Names(*repository), ElementsAre("models-cunet", "other"));
    EXPECT_THAT((*repository->Find("models-cunet"))->NoiseLevels(), ElementsAre(-1, 1));
  }
}

TEST_F(RepositoryTest, EndingsMayBeInUpperCaseAndFoldersNested) {
  Write("A.SAFETENSORS", CompactWeights(true));
  Write("B.Onnx", test::OnnxFile().Add({"Relu", {"x"}, "out"}).bytes());
  Write("C.PTH", "PK");
  Write("by author/new/d.safetensors", CompactWeights(true));
  WriteWeights("by author/new/e");
  WriteWeights("by author/cunet/scale2.0x_model");
  WriteWeights("by author/versions/3/f");
  Write("by author/.trash/g.safetensors", CompactWeights(true));
  Write("by author/notes.txt", "");
  const auto repository = ModelRepository::Open({root_});
  ASSERT_TRUE(repository.ok()) << repository.status();
  EXPECT_THAT(Names(*repository), ElementsAre("A", "B", "cunet", "d", "e", "versions"));
  EXPECT_THAT(Refused(*repository), ElementsAre("C"));
}

TEST_F(RepositoryTest, FilesThatLookLikeModelsAreRefusedByName) {
  WriteWeights("no-bin");
  std::filesystem::remove(root_ / "no-bin.bin");
  Write("no-param.bin", "weights");
  Write("other.tflite", "TFL3");
  Write("upper.PKL", "");
  Write("pixels.json", R"({"no": "model"})");
  Write("layers.json", R"([{"no": "layer"}])");
  Write("sub/deep.GGUF", "");
  const auto repository = ModelRepository::Open({root_});
  ASSERT_TRUE(repository.ok()) << repository.status();
  EXPECT_THAT(Names(*repository), ElementsAre());
  EXPECT_THAT(Refused(*repository),
              ElementsAre("deep", "layers", "no-bin", "no-param", "other", "upper"));
  const auto why = [&](const char* name) {
    return std::string(repository->Find(name).status().message());
  };
  EXPECT_THAT(why("no-bin"), HasSubstr("no-bin.bin"));
  EXPECT_THAT(why("no-param"), HasSubstr("is in no known format"));
  EXPECT_THAT(why("no-param"), HasSubstr("it is text: look whether it says why"));
  EXPECT_THAT(why("other"), HasSubstr(".tflite files are not supported; supported are .pth"));
}

TEST_F(RepositoryTest, AFileWhoseNameIsTakenIsRefusedByItsPath) {
  Write("a.safetensors", CompactWeights(true));
  Write("a.onnx", test::OnnxFile().Add({"Relu", {"x"}, "out"}).bytes());
  Write("sub/a.safetensors", CompactWeights(true));
  Write("sub/half.pth", "PK");
  Write("sub/deeper/half.safetensors", CompactWeights(true));
  Write("second/a.safetensors", CompactWeights(true));
  const auto repository = ModelRepository::Open({root_, root_ / "second"});
  ASSERT_TRUE(repository.ok()) << repository.status();
  EXPECT_THAT(Names(*repository), ElementsAre("a"));
  EXPECT_EQ(repository->models()[0].family, "onnx") << "the first in order of name";
  EXPECT_THAT(Refused(*repository), ElementsAre("a.safetensors", "half", "sub/a.safetensors",
                                                "sub/deeper/half.safetensors"));
  EXPECT_THAT(std::string(repository->Find("sub/a.safetensors").status().message()),
              HasSubstr("the name 'a' is that of " + (root_ / "a.onnx").string()));
}

TEST_F(RepositoryTest, FoldersThatLinkToEachOtherAreNoCircle) {
  Write("sub/a.safetensors", CompactWeights(true));
  std::filesystem::create_directory_symlink(root_, root_ / "sub/up");
  std::filesystem::create_directory_symlink(root_ / "sub", root_ / "also");
  path deep = "deep";
  for (int i = 0; i < 8; ++i) deep /= absl::StrCat("d", i);
  Write(deep / "b.safetensors", CompactWeights(true));
  const auto repository = ModelRepository::Open({root_});
  ASSERT_TRUE(repository.ok()) << repository.status();
  EXPECT_THAT(Names(*repository), ElementsAre("a"));
  EXPECT_THAT(Refused(*repository), ElementsAre("d7", "sub/a.safetensors")) << "also/a comes first";
  EXPECT_THAT(std::string(repository->Find("d7").status().message()),
              HasSubstr("lies 9 folders deep, the limit is 8"));
}

TEST_F(RepositoryTest, ACardSaysWhatKnownFileNamesDoNot) {
  WriteWeights("waifu2x-art/scale2.0x_model");
  Write("waifu2x-art/waifu2x-art.model.json", R"({"licence": "MIT", "style": "drawings"})");
  WriteWeights("realesr-animevideov3-x2");
  Write("realesr-animevideov3.model.json", R"({"licence": "BSD-3-Clause"})");
  auto repository = ModelRepository::Open({root_});
  ASSERT_TRUE(repository.ok()) << repository.status();
  EXPECT_EQ((*repository->Find("waifu2x-art"))->licence, "MIT");
  EXPECT_EQ((*repository->Find("waifu2x-art"))->style, "drawings");
  const ModelCard& video = **repository->Find("realesr-animevideov3");
  EXPECT_EQ(video.licence, "BSD-3-Clause");
  EXPECT_EQ(video.style, "anime");
  EXPECT_THAT(Refused(*repository), ElementsAre());
  Write("waifu2x-art/waifu2x-art.model.json", R"({"license": "MIT"})");
  repository = ModelRepository::Open({root_});
  EXPECT_THAT(Refused(*repository), ElementsAre("waifu2x-art"));
}

TEST_F(RepositoryTest, AVariantWithoutItsFilesIsRefusedAndNotItsModel) {
  for (const char* scale : {"2", "3", "4"}) {
    WriteWeights(std::string("models/realesr-animevideov3-x") + scale);
  }
  std::filesystem::remove(root_ / "models/realesr-animevideov3-x3.bin");
  const auto repository = ModelRepository::Open({root_});
  ASSERT_TRUE(repository.ok()) << repository.status();
  EXPECT_THAT((*repository->Find("realesr-animevideov3"))->Scales(), ElementsAre(2, 4));
  EXPECT_THAT(Refused(*repository), ElementsAre("realesr-animevideov3/realesr-animevideov3-x3"));
}

TEST_F(RepositoryTest, TheNewestVersionIsTheModel) {
  WriteWeights("tiny/1/scale2.0x_model");
  Write("tiny/2/any name.safetensors", CompactWeights(true));
  Write("tiny/2/.half.pth", "PK");
  WriteWeights("tiny/10/m");
  Write("tiny/10/model.json", CardWith("\"version\": 3, ", ""));
  for (const char* none : {"03", "+4", "11x", "1000001", "-5"})
    WriteWeights(path("tiny") / none / "m");
  Write("tiny/11", "no folder");
  WriteWeights("second/tiny/1/scale2.0x_model");
  WriteWeights("second/tiny/7/scale2.0x_model");
  const auto repository = ModelRepository::Open({root_, root_ / "second"});
  ASSERT_TRUE(repository.ok()) << repository.status();
  const struct {
    std::string name, family;
    int version;
  } kModels[] = {{"tiny", "espcn", 10}, {"tiny@2", "compact", 2}, {"tiny@1", "waifu2x", 1}};
  ASSERT_EQ(repository->models().size(), std::size(kModels));
  for (const auto& expected : kModels) {
    const ModelCard& card = **repository->Find(expected.name);
    EXPECT_EQ(card.name, expected.name);
    EXPECT_EQ(card.family, expected.family);
    EXPECT_EQ(card.version, expected.version);
    EXPECT_TRUE(LoadNetwork(card, card.variants[0]).ok());
  }
  EXPECT_EQ((*repository->Find("tiny@10"))->name, "tiny");
  EXPECT_FALSE(repository->Find("tiny@7").ok()) << "another directory's";
}

TEST_F(RepositoryTest, ABrokenVersionIsRefusedByItself) {
  const struct {
    std::string file, content, message;
  } kCases[] = {
      {"3/model.json", CardWith("3", "2"), "'version' is 2, must be that of its folder, 3"},
      {"3/model.json", CardWith("tiny", "3"), "'name' is '3', must be that of its folder 'tiny'"},
      {"3/notes.txt", "", "tiny/3: has 0 models, a version must be one"},
      {"3/b.safetensors", CompactWeights(true), "tiny/3: has 2 models"},
  };
  for (const auto& [file, content, message] : kCases) {
    std::filesystem::remove_all(root_ / "tiny");
    if (file.ends_with("tensors")) Write("tiny/3/a.safetensors", content);
    Write("tiny/" + file, content);
    WriteWeights("tiny/2/scale2.0x_model");
    ExpectRefusal(absl::StatusCode::kInvalidArgument, message);
    const auto repository = ModelRepository::Open({root_});
    EXPECT_EQ(repository->refused().front().name, "tiny");
    EXPECT_TRUE(repository->Find("tiny@2").ok());
  }
}

TEST_F(RepositoryTest, AliasesAreOfAFileThenOfCards) {
  WriteModel(CardWith("\"scale\": 2", "\"scale\": 2, \"aliases\": [\"art\", \"new\", \"tiny\"]"));
  Write("aliases.json", R"({"art": "tiny", "best": "none", "tiny": "other"})");
  Write("second/aliases.json", R"({"art": "lost", "photo": "tiny"})");
  const auto repository = ModelRepository::Open({root_, root_ / "second"});
  ASSERT_TRUE(repository.ok()) << repository.status();
  EXPECT_THAT(repository->aliases(),
              ElementsAre(Pair("art", "tiny"), Pair("best", "none"), Pair("new", "tiny"),
                          Pair("photo", "tiny"), Pair("tiny", "other")));
  for (const char* name : {"tiny", "art", "new", "photo"}) {
    EXPECT_EQ(repository->Find(name).value()->name, "tiny") << name;
  }
  EXPECT_EQ(repository->Find("best").status().message(), "no model 'none', there are: tiny");
}

TEST_F(RepositoryTest, BrokenAliasesAreRefused) {
  const struct {
    const char *json, *message;
  } kCases[] = {{"[]", "aliases.json: is no JSON object of aliases"},
                {R"({"": "x"})", "has the alias '', which is empty"},
                {R"({"a\u0007": "x"})", "which is empty or no text"},
                {R"({"a": 1})", "the alias 'a' must stand for the name of a model"},
                {R"({"a": "x", "a": "y"})", "has the alias 'a' twice"}};
  for (const auto& [json, message] : kCases) {
    Write("aliases.json", json);
    ExpectRefusal(absl::StatusCode::kInvalidArgument, message);
  }
}

TEST_F(RepositoryTest, WhatIsRefusedKeepsNoOtherFromBeingServed) {
  WriteModel(kCard);
  Write("half.pth", "PK\x03\x04");
  Write("misspelt/model.json", "{}");
  WriteWeights("second/misspelt/scale2.0x_model");
  const auto repository = ModelRepository::Open({root_, root_ / "second"});
  ASSERT_TRUE(repository.ok()) << repository.status();
  ASSERT_EQ(repository->models().size(), 1u);
  EXPECT_TRUE(repository->Find("tiny").ok());
  ASSERT_EQ(repository->refused().size(), 2u);
  EXPECT_EQ(repository->refused()[0].name, "half");
  EXPECT_EQ(repository->Find("half").status(), repository->refused()[0].why);
  // A broken model does not turn into another one of its name.
  EXPECT_THAT(std::string(repository->Find("misspelt").status().message()),
              HasSubstr("misspelt/model.json: needs a string 'name'"));
}

TEST_F(RepositoryTest, ACardNamesTheArchitectureThatTensorsDoNot) {
  Write("net/n.safetensors", CompactWeights(false));
  const auto load = [&](const std::string& field) {
    std::string card = kWeightsCard;
    Write("net/model.json", card.insert(1, field));
    const auto repository = ModelRepository::Open({root_});
    if (repository->models().empty()) return absl::StatusOr<Network>(Refusal());
    const ModelCard& found = repository->models()[0];
    return LoadNetwork(found, found.variants[0]);
  };
  EXPECT_EQ(load("").status().code(), absl::StatusCode::kUnimplemented);
  const auto relu = load(R"("architecture": "compact-relu", )");
  ASSERT_TRUE(relu.ok()) << relu.status();
  EXPECT_EQ(relu->layers[1].activation, Activation::kRelu);
  EXPECT_THAT(std::string(load(R"("architecture": "resnet", )").status().message()),
              HasSubstr("net/model.json: there is no architecture 'resnet'"));
}

TEST_F(RepositoryTest, ACardBesideABareFileSaysWhatTheFileDoesNot) {
  Write("1x-net.safetensors", CompactWeights(false));
  ExpectRefusal(absl::StatusCode::kUnimplemented, "1x-net.safetensors");
  Write("1x-net.model.json", R"({"architecture": "compact-relu", "licence": "CC-BY-4.0",
      "style": "art", "aliases": ["art"], "precisions": ["exact", "fast"], "version": 2,
      "cell_px": 512})");
  const auto repository = ModelRepository::Open({root_});
  ASSERT_TRUE(repository.ok()) << repository.status();
  ASSERT_EQ(repository->models().size(), 1u) << Refusal();
  const ModelCard& card = **repository->Find("art");
  EXPECT_EQ(card.name, "1x-net");
  EXPECT_EQ(card.family, "compact-relu");
  EXPECT_EQ(card.licence, "CC-BY-4.0");
  EXPECT_EQ(card.style, "art");
  EXPECT_EQ(card.version, 2);
  EXPECT_THAT(card.description, HasSubstr("1x-net.safetensors, which its card says are of"));
  EXPECT_THAT(card.precisions, ElementsAre(Precision::kExact, Precision::kFast));
  const auto network = LoadNetwork(card, card.variants[0]);
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_EQ(network->layers[1].activation, Activation::kRelu);
  EXPECT_EQ(network->cell_px, 512);
}

TEST_F(RepositoryTest, AReloadFindsThatACardChangedItsCells) {
  WriteModel(kCard);
  const auto before = ModelRepository::Open({root_});
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_EQ(before->models()[0].variants[0].cell_px, kDefaultCellPx);
  const auto same = before->Reopen();
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(same->models()[0].variants[0].files_state, before->models()[0].variants[0].files_state);
  Write("tiny/model.json", CardWith("\"align_px\": 1", "\"cell_px\": 384"));
  const auto after = before->Reopen();
  ASSERT_TRUE(after.ok()) << after.status();
  const ModelVariant& variant = after->models()[0].variants[0];
  EXPECT_EQ(variant.cell_px, 384);
  EXPECT_NE(variant.files_state, before->models()[0].variants[0].files_state)
      << "a loaded network has the old cells";
  const auto network = LoadNetwork(after->models()[0], variant);
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_EQ(network->cell_px, 384);
}

TEST_F(RepositoryTest, BrokenCardsBesideBareFilesAreRefused) {
  Write("a.safetensors", CompactWeights(true));
  Write("a.model.json", R"({"scale": 2})");
  ExpectRefusal(absl::StatusCode::kInvalidArgument,
                "a.model.json: has an unknown field 'scale'; known are style, licence");
  Write("a.model.json", "[");
  ExpectRefusal(absl::StatusCode::kInvalidArgument, "a.model.json: is no JSON object");
  std::filesystem::remove(root_ / "a.safetensors");
  Write("a.onnx", test::OnnxFile().Add({"Relu", {"x"}, "out"}).bytes());
  Write("a.model.json", R"({"architecture": "compact"})");
  ExpectRefusal(absl::StatusCode::kInvalidArgument, "but files of format 'onnx' say themselves");
}

TEST_F(RepositoryTest, AnotherArchitectureIsAnotherModel) {
  Write("net/n.safetensors", CompactWeights(false));
  const auto with = [](const std::string& architecture) {
    std::string card = kWeightsCard;
    return card.insert(1, "\"architecture\": \"" + architecture + "\", ");
  };
  Write("net/model.json", with("compact-relu"));
  const auto before = ModelRepository::Open({root_});
  ASSERT_TRUE(before.ok()) << before.status();
  const auto state = [](const auto& repository) {
    return repository->models()[0].variants[0].files_state;
  };
  EXPECT_EQ(state(before->Reopen()), state(before));
  Write("net/model.json", with("compact-leakyrelu"));
  EXPECT_NE(state(before->Reopen()), state(before));
}

TEST_F(RepositoryTest, OnlyFilesOfWeightsTakeAnArchitecture) {
  WriteModel(CardWith("\"scale\": 2", "\"scale\": 2, \"architecture\": \"compact\""));
  ExpectRefusal(absl::StatusCode::kInvalidArgument,
                "'architecture' is 'compact', but files of format 'ncnn' say themselves");
}

// A download often gives something else under a model's name.
TEST_F(RepositoryTest, FilesOfOtherKindsAreNamedWithAdvice) {
  const std::string page = "<!DOCTYPE html>\n<html><title>Virus scan warning</title></html>";
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\n";
  const std::pair<std::string, const char*> kFiles[] = {
      {page, "it is an HTML page: download the file that the page offers"},
      {pointer, "it is a pointer of Git LFS: fetch the file itself (git lfs pull)"},
      {R"({"error": "not found"})", "it is JSON: look whether it says why"},
      {"Not Found", "it is text: look whether it says why"},
      {"\x1f\x8b\x08 and so on", "it is gzip: decompress it"},
      {"Rar!\x1a\x07", "it is a RAR archive: unpack it"},
      {"7z\xbc\xaf\x27\x1c", "it is a 7z archive: unpack it"},
      {"\x89PNG\r\n\x1a\n", "it is PNG"},
  };
  for (const auto& [bytes, why] : kFiles) {
    for (const char* name : {"x.pth", "x.pt", "x.ckpt", "x.safetensors", "x.onnx", "x.param"}) {
      std::filesystem::remove_all(root_);
      std::filesystem::create_directory(root_);
      Write(name, bytes);
      if (std::string_view(name).ends_with(".param")) Write("x.bin", "weights");
      const auto repository = ModelRepository::Open({root_});
      ASSERT_TRUE(repository.ok()) << repository.status();
      const std::string message(repository->Find("x").status().message());
      EXPECT_THAT(message, HasSubstr(why)) << name;
      EXPECT_THAT(message, HasSubstr(name));
    }
  }
  for (const auto& [bytes, why] : {std::pair(page, "x.bin: is an HTML page"),
                                   std::pair(pointer, "x.bin: is a pointer of Git LFS")}) {
    WriteWeights("x");
    Write("x.bin", bytes);
    const auto repository = ModelRepository::Open({root_});
    ASSERT_TRUE(repository.ok()) << repository.status();
    EXPECT_THAT(std::string(repository->Find("x").status().message()), HasSubstr(why));
  }
}

TEST_F(RepositoryTest, UnreadableWeightsNameTheFile) {
  WriteModel(kCard);
  const auto load = [&] {
    const auto repository = ModelRepository::Open({root_});
    EXPECT_TRUE(repository.ok()) << repository.status();
    const ModelCard& card = repository->models()[0];
    return LoadNetwork(card, card.variants[0]).status();
  };
  Write("tiny/m.param", "\x1f\x8b\x08");
  EXPECT_EQ(load().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(load().message()),
              HasSubstr("tiny/m.param: is in no known format, there are: ncnn .param"));
  Write("tiny/m.param", "7767517\n1 1\n");
  EXPECT_EQ(load().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(load().message()), HasSubstr("tiny/m.param: file announces 1 layers"));
  std::filesystem::resize_file(root_ / "tiny/m.param", (4 << 20) + 1);
  EXPECT_EQ(load(), absl::ResourceExhaustedError((root_ / "tiny/m.param").string() +
                                                 ": has 4194305 bytes, the limit is 4194304"));
}

TEST(SharedModelsTest, AreRecognisedAndLoad) {
  const path folder = test::SharedFolder() / "models";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no models under " << folder;
  const auto repository = ModelRepository::Open({folder});
  ASSERT_TRUE(repository.ok()) << repository.status();
  std::vector<std::string> names;
  for (const ModelCard& card : repository->models()) {
    names.push_back(card.name + " " + card.family + " " + card.style);
    for (const ModelVariant& variant : card.variants) {
      const auto network = LoadNetwork(card, variant);
      ASSERT_TRUE(network.ok()) << network.status();
      EXPECT_EQ(network->scale, variant.scale);
    }
  }
  EXPECT_THAT(names,
              ElementsAre("realcugan-se realcugan general", "realesr-animevideov3 realesr anime",
                          "RealESRGAN_General_x4_v3 ncnn general", "waifu2x-cunet-art cunet art",
                          "waifu2x-upconv_7-art upconv_7 art", "scale2.0x_model onnx general",
                          "waifu2x-upconv_7-photo upconv_7 photo"));
  EXPECT_THAT((*repository->Find("waifu2x-cunet-art"))->Scales(), ElementsAre(1, 2));
}

TEST(BundledModelsTest, OpenAndLoad) {
  const auto repository = ModelRepository::Open({UPSCALED_BUNDLED_MODELS});
  ASSERT_TRUE(repository.ok()) << repository.status();
  ASSERT_FALSE(repository->models().empty());
  for (const ModelCard& card : repository->models()) {
    for (const ModelVariant& variant : card.variants) {
      const auto network = LoadNetwork(card, variant);
      EXPECT_TRUE(network.ok()) << network.status();
    }
  }
}

// Bytes that this process has read of files; 0 where the system keeps no account.
int64_t BytesRead() {
  std::ifstream io("/proc/self/io");
  std::string name;
  for (int64_t bytes = 0; io >> name >> bytes;) {
    if (name == "rchar:") return bytes;
  }
  return 0;
}

TEST_F(RepositoryTest, BareFilesAreReadOnce) {
  if (BytesRead() == 0) GTEST_SKIP() << "needs /proc/self/io";
  const std::string weights = test::SafetensorsOf(test::ConvShapes("conv1", 512, 3, 3) +
                                                  test::ConvShapes("conv2", 12, 512, 3));
  const auto size = static_cast<int64_t>(weights.size());
  Write("bare.safetensors", weights);
  const auto read_by = [](auto action) {
    const int64_t before = BytesRead();
    action();
    return BytesRead() - before;
  };
  const auto load = [](const ModelRepository& repository) {
    const ModelCard& card = repository.models().at(0);
    const auto network = LoadNetwork(card, card.variants[0]);
    ASSERT_TRUE(network.ok()) << network.status();
    EXPECT_EQ(network->name, "bare/bare");
  };
  for (const int64_t read_ahead_bytes : {int64_t{0}, size, size - 1}) {
    const int64_t listed = read_by([&] {
      const auto repository = ModelRepository::Open({root_}, read_ahead_bytes);
      ASSERT_TRUE(repository.ok()) << repository.status();
      load(*repository);
    });
    EXPECT_EQ(listed >= 2 * size, read_ahead_bytes < size) << listed;
  }
  const auto repository = ModelRepository::Open({root_}, 2 * size);
  ASSERT_TRUE(repository.ok()) << repository.status();
  repository->DropReadAhead();
  EXPECT_GE(read_by([&] { load(*repository); }), size);
  EXPECT_LT(read_by([&] { EXPECT_EQ(repository->Reopen()->models().size(), 1u); }), size)
      << "has not changed";
  Write("bare.model.json", R"({"style": "art"})");
  EXPECT_EQ(repository->Reopen()->models().at(0).style, "art") << "its card has";
}

TEST_F(RepositoryTest, NetworksAreKeptForWhoLoadsTheSameFiles) {
  WriteModel(kCard);
  const auto repository = ModelRepository::Open({root_});
  ASSERT_TRUE(repository.ok()) << repository.status();
  const ModelCard& card = repository->models().at(0);
  auto network = LoadNetwork(card, card.variants[0]);
  ASSERT_TRUE(network.ok()) << network.status();
  network->layers[1].bias[0] = 1;
  KeepNetwork(card.variants[0], *network);
  EXPECT_EQ(LoadNetwork(card, card.variants[0])->layers[1].bias[0], 1);
  EXPECT_EQ(LoadNetwork(card, card.variants[0])->layers[1].bias[0], 0) << "once";
  KeepNetwork(card.variants[0], *network);
  WriteWeights("tiny/m");
  EXPECT_EQ(LoadNetwork(card, card.variants[0]).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace upscaled
