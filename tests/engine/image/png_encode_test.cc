// The PNG encoder's output, read by hand: chunks, checksums, the deflated stream; and the same
// bytes from any number of threads.
#include <zlib.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/image/codec.h"
#include "engine/image/endian.h"
#include "tests/support/odd_files.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using ::testing::HasSubstr;

struct Chunk {
  std::string type;
  std::string data;
};

// Expects whole chunks with the right CRC.
std::vector<Chunk> ChunksOf(const std::string& file) {
  std::vector<Chunk> chunks;
  for (size_t at = 8; at < file.size();) {
    EXPECT_LE(at + 12, file.size());
    const size_t length = LoadBe32(AsBytes(file).data() + at);
    EXPECT_LE(at + 12 + length, file.size());
    chunks.push_back({file.substr(at + 4, 4), file.substr(at + 8, length)});
    EXPECT_EQ(file.substr(at, 12 + length), test::PngChunk(chunks.back().type, chunks.back().data));
    at += 12 + length;
  }
  return chunks;
}

// All IDAT data as one zlib stream; zlib compares its checksum.
std::string InflatePixels(const std::vector<Chunk>& chunks, size_t expected_bytes) {
  std::string deflated, inflated(expected_bytes + 1, '\0');
  for (const Chunk& chunk : chunks)
    if (chunk.type == "IDAT") deflated += chunk.data;
  uLongf bytes = inflated.size();
  EXPECT_EQ(uncompress(reinterpret_cast<Bytef*>(inflated.data()), &bytes, AsBytes(deflated).data(),
                       deflated.size()),
            Z_OK);
  inflated.resize(bytes);
  return inflated;
}

Image RandomOrFlat(const ImageSpec& spec, std::mt19937& random) {
  return test::RandomInt(random, 0, 1) ? test::RandomImage(spec, random)
                                       : test::ArtImage(spec, random);
}

TEST(PngEncodeTest, FilesAreAsTheSpecificationSays) {
  std::mt19937 random = test::FreshRandom();
  for (int round = 0; round < 40; ++round) {
    const ImageSpec spec = {test::RandomInt(random, 1, 900), test::RandomInt(random, 1, 900),
                            test::RandomInt(random, 1, 4),
                            round % 2 ? SampleType::kU8 : SampleType::kU16};
    const int compression = test::RandomInt(random, 0, 9);
    SCOPED_TRACE(::testing::Message() << spec << ", level " << compression);
    const Image image = RandomOrFlat(spec, random);
    const ImageMetadata metadata = {round % 3 ? "" : test::TestProfile(spec.channels < 3, 5000)};
    const auto file =
        test::Encode(image.view(), {.compression = compression, .threads = 2}, metadata);
    ASSERT_TRUE(file.ok()) << file.status();

    const std::vector<Chunk> chunks = ChunksOf(*file);
    ASSERT_EQ(chunks.front().type, "IHDR");
    ASSERT_EQ(chunks.back().type, "IEND");
    EXPECT_EQ(chunks[1].type, metadata.icc_profile.empty() ? "IDAT" : "iCCP");
    const size_t filtered_bytes = spec.height_px * (spec.row_bytes() + 1);
    EXPECT_EQ(InflatePixels(chunks, filtered_bytes).size(), filtered_bytes);

    const auto decoded = test::Decode(*file);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_TRUE(test::SameImages(decoded->image.view(), image.view()));
    EXPECT_EQ(decoded->metadata.icc_profile, metadata.icc_profile);
  }
}

TEST(PngEncodeTest, BytesDoNotDependOnThreads) {
  std::mt19937 random = test::FreshRandom();
  for (const int compression : {0, 1, 2, 6}) {
    const ImageSpec spec = {test::RandomInt(random, 500, 1200), test::RandomInt(random, 900, 2500),
                            test::RandomInt(random, 1, 4), SampleType::kU8};
    SCOPED_TRACE(::testing::Message() << spec << ", level " << compression);
    const Image image = RandomOrFlat(spec, random);
    const auto alone = test::Encode(image.view(), {.compression = compression});
    ASSERT_TRUE(alone.ok());
    for (const int threads : {2, 3, 50}) {
      const auto shared =
          test::Encode(image.view(), {.compression = compression, .threads = threads});
      ASSERT_TRUE(shared.ok()) << shared.status();
      EXPECT_TRUE(*shared == *alone) << threads << " threads";
    }
  }
}

// Leaves free memory with `value` everywhere, likely to be allocated next.
void SoilMemory(uint16_t value) {
  std::vector<std::vector<uint16_t>> blocks;
  for (int i = 0; i < 200; ++i) blocks.emplace_back(1 << (8 + i % 8), value);
  for (size_t i = 0; i + 1 < blocks.size(); ++i) blocks[i] = {};  // the last one keeps the heap
}

TEST(PngEncodeTest, BytesDoNotDependOnWhatMemoryHeldBefore) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({300, 200, 3, SampleType::kU8}, random);
  for (const int compression : {0, 1, 2, 4}) {
    std::vector<std::string> files;
    for (const uint16_t value : {0, 8, 9, 0xFFFF}) {
      SoilMemory(value);
      files.push_back(*test::Encode(image.view(), {.compression = compression}));
    }
    for (const std::string& file : files) EXPECT_TRUE(file == files[0]) << "level " << compression;
  }
}

TEST(PngEncodeTest, HigherLevelsAreSmaller) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::PhotoImage({700, 500, 3, SampleType::kU8}, random);
  const auto bytes = [&](int compression) {
    return test::Encode(image.view(), {.compression = compression})->size();
  };
  EXPECT_GT(bytes(0), image.bytes());
  EXPECT_LT(bytes(1), image.bytes());
  EXPECT_LT(bytes(9), bytes(1));
}

class FullSink final : public ByteSink {
 public:
  explicit FullSink(size_t room) : room_(room) {}
  absl::Status Write(std::span<const uint8_t> bytes) override {
    if (bytes.size() > room_) return absl::CancelledError("the caller left");
    room_ -= bytes.size();
    return absl::OkStatus();
  }

 private:
  size_t room_;
};

TEST(PngEncodeTest, ErrorsOfTheSinkStayWhileThreadsAreAtWork) {
  std::mt19937 random = test::FreshRandom();
  const Image image = test::RandomImage({1000, 1000, 3, SampleType::kU8}, random);
  for (int round = 0; round < 10; ++round) {
    FullSink sink(test::RandomInt(random, 100, 2'900'000));
    const auto encoder = CreateImageEncoder({.threads = 3}, image.spec(), {}, sink);
    ASSERT_TRUE(encoder.ok()) << encoder.status();
    absl::Status status;
    for (int y = 0; y < 1000 && status.ok(); ++y)
      status = (*encoder)->WriteRows(image.view().Crop({0, y, 1000, 1}));
    if (status.ok()) status = (*encoder)->Finish();
    EXPECT_EQ(status, absl::CancelledError("the caller left"));
    EXPECT_FALSE((*encoder)->Finish().ok());
  }
}

TEST(PngEncodeTest, RefusesNoThreads) {
  StringSink sink;
  EXPECT_THAT(std::string(CreateImageEncoder({.threads = 0}, {4, 4, 3, SampleType::kU8}, {}, sink)
                              .status()
                              .message()),
              HasSubstr("threads is 0; it must be at least 1"));
}

}  // namespace
}  // namespace upscaled
