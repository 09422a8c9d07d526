#include "client/video/film.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "client/image_io.h"
#include "engine/image/codec.h"
#include "engine/image/memory_io.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace upscaled::client {
namespace {

using ::testing::HasSubstr;

// Gives every image back, after `on_call`.
class EchoService final : public Service {
 public:
  int most_frames = 1000;
  bool refuses_single_frames = true;  // if `on_call` fails
  int64_t unchanged_px = 0;
  std::function<absl::Status(int call, std::stop_token stop)> on_call = [](int, std::stop_token) {
    return absl::OkStatus();
  };

  absl::StatusOr<ImageResult> UpscaleImage(const ImageRequest& request, ImageSource& source,
                                           ImageSink& sink, ImageObserver&,
                                           std::stop_token stop) override {
    EXPECT_EQ(request.options.format(), v1::IMAGE_FORMAT_PNG);
    std::vector<char> buffer(size_t{1} << 20);
    const auto bytes = source.Read(buffer, stop);
    const int running = ++running_;
    {
      absl::MutexLock lock(&mutex_);
      most_ = std::max(most_, running);
    }
    const absl::Status status = on_call(calls_++, stop);
    --running_;
    const absl::string_view image(buffer.data(), *bytes);
    upscaled::MemorySource opened({image.data(), image.size()});
    const auto decoder = OpenImageDecoder(opened, {.frame = 0});
    if (!decoder.ok()) return decoder.status();
    const ImageHeader& header = (*decoder)->header();
    const int frames = header.animation.value_or(Animation()).frames;
    if (!status.ok() && (frames > 1 || refuses_single_frames)) return status;
    {
      absl::MutexLock lock(&mutex_);
      longest_ = std::max(longest_, frames);
    }
    if (frames > most_frames)
      return absl::ResourceExhaustedError(absl::StrCat(frames, " frames are too many"));
    const absl::Status written = sink.Write(image);
    if (!written.ok()) return written;
    ImageResult result;
    result.header.set_source_width_px(header.spec.width_px);
    result.header.set_source_height_px(header.spec.height_px);
    result.summary.set_unchanged_pixels(unchanged_px);
    return result;
  }
  absl::StatusOr<v1::ListModelsResponse> ListModels(std::stop_token) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<v1::GetServerInfoResponse> ServerInfo(std::stop_token) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<grpc::health::v1::HealthCheckResponse::ServingStatus> CheckHealth(
      const std::string&, std::stop_token) override {
    return absl::UnimplementedError("");
  }

  int calls() const { return calls_; }
  int most() const {
    absl::MutexLock lock(&mutex_);
    return most_;
  }
  // Frames of a successful call, at most.
  int longest() const {
    absl::MutexLock lock(&mutex_);
    return longest_;
  }

 private:
  std::atomic<int> calls_ = 0, running_ = 0;
  mutable absl::Mutex mutex_;
  int most_ ABSL_GUARDED_BY(mutex_) = 0, longest_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Gray of full range: frames come back as they are.
std::string FilmOf(const std::string& values) {
  std::string film = "YUV4MPEG2 W4 H4 F24:1 Cmono XCOLORRANGE=FULL\n";
  for (const char value : values) absl::StrAppend(&film, "FRAME\n", std::string(16, value));
  return film;
}

class FilmTest : public ::testing::Test {
 protected:
  absl::Status Run(const std::string& film, std::stop_token stop = {}) {
    MemorySource source(film);
    return UpscaleFilm(
        service_, options_, source, sink_, [](const FilmProgress&) {}, progress_, std::move(stop));
  }

  EchoService service_;
  FilmOptions options_;
  MemorySink sink_;
  FilmProgress progress_;
};

TEST_F(FilmTest, FramesComeInOrderHoweverTheyEnd) {
  const std::string film = FilmOf("abcdefghijklmnopqrstuvwxyz");
  service_.on_call = [](int call, std::stop_token) {
    if (call % 3 == 0) absl::SleepFor(absl::Milliseconds(3));
    return absl::OkStatus();
  };
  ASSERT_TRUE(Run(film).ok());
  EXPECT_EQ(sink_.bytes(), film);
  EXPECT_EQ(progress_.written, 26);
  EXPECT_LE(service_.most(), options_.frames_ahead);
}

TEST_F(FilmTest, NoMoreFramesAreReadThanTheWindowHolds) {
  options_.frames_ahead = 2;
  absl::Notification blocked, go;
  service_.on_call = [&](int call, std::stop_token) {
    if (call == 1) blocked.Notify();
    go.WaitForNotification();
    return absl::OkStatus();
  };
  const std::string film = FilmOf("abcdef");
  MemorySource source(film);
  std::jthread run([&] {
    EXPECT_TRUE(
        UpscaleFilm(service_, options_, source, sink_, [](const FilmProgress&) {}, progress_, {})
            .ok());
  });
  blocked.WaitForNotification();
  EXPECT_EQ(service_.calls(), 2);
  go.Notify();
  run.join();
  EXPECT_EQ(service_.most(), 2);
  EXPECT_EQ(sink_.bytes(), film);
}

TEST_F(FilmTest, AFrameEqualToTheOneBeforeIsNotComputed) {
  const std::string film = FilmOf("aaaabbabb");
  ASSERT_TRUE(Run(film).ok());
  EXPECT_EQ(sink_.bytes(), film);
  EXPECT_EQ(service_.calls(), 4);
  EXPECT_EQ(progress_.repeated, 5);
}

TEST_F(FilmTest, AFailedFrameEndsTheFilmBehindWholeFrames) {
  service_.on_call = [](int call, std::stop_token) {
    return call == 3 ? absl::ResourceExhaustedError("full") : absl::OkStatus();
  };
  options_.frames_ahead = 1;
  const absl::Status status = Run(FilmOf("abcdef"));
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(status.message(), "frame 3: full");
  EXPECT_EQ(sink_.bytes(), FilmOf("abc"));
  EXPECT_EQ(progress_.written, 3);
}

TEST_F(FilmTest, ACutFilmGivesItsWholeFrames) {
  const std::string film = FilmOf("abcd");
  const absl::Status status = Run(film.substr(0, film.size() - 5));
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("within frame 3"));
  EXPECT_EQ(sink_.bytes(), FilmOf("abc"));
}

TEST_F(FilmTest, GoesOnWhereAnotherRunEnded) {
  options_.resume_at = 2;
  ASSERT_TRUE(Run(FilmOf("aabbc")).ok());
  EXPECT_EQ(sink_.bytes(), FilmOf("bbc"));
  EXPECT_EQ(service_.calls(), 2);
}

TEST_F(FilmTest, NothingIsLeftToGoOnWith) {
  for (const int64_t resume_at : {5, 6, 1'000'000}) {
    options_.resume_at = resume_at;
    const absl::Status status = Run(FilmOf("aabbc"));
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("the film has 5 frames"));
  }
  EXPECT_EQ(sink_.bytes(), "");
}

TEST_F(FilmTest, StopEndsCallsAndReading) {
  std::stop_source stop;
  service_.on_call = [&](int call, std::stop_token stopped) {
    if (call < 2) return absl::OkStatus();
    stop.request_stop();
    EXPECT_TRUE(stopped.stop_requested());
    return absl::CancelledError("");
  };
  options_.frames_ahead = 1;
  EXPECT_TRUE(absl::IsCancelled(Run(FilmOf("abcdef"), stop.get_token())));
  const std::string written = sink_.bytes();
  EXPECT_TRUE(written.empty() || written == FilmOf("a") || written == FilmOf("ab")) << written;
}

// Films with one changed row of many from frame to frame.
std::string SlowFilm(int frames) {
  std::string film = "YUV4MPEG2 W16 H64 F24:1 Cmono XCOLORRANGE=FULL\n";
  for (int i = 0; i < frames; ++i) {
    std::string frame(16 * 64, 'a');
    std::fill_n(frame.begin() + 16 * (i % 64), 16, static_cast<char>('b' + i % 16));
    absl::StrAppend(&film, "FRAME\n", frame);
  }
  return film;
}

TEST_F(FilmTest, FramesOfWhichLittleChangesGoTogether) {
  const std::string film = SlowFilm(17);
  absl::Notification second;
  service_.on_call = [&](int call, std::stop_token) {
    if (call == 0) second.WaitForNotification();  // others join meanwhile
    if (call == 1) second.Notify();
    return absl::OkStatus();
  };
  ASSERT_TRUE(Run(film).ok());
  EXPECT_EQ(sink_.bytes(), film);
  EXPECT_EQ(progress_.written, 17);
  EXPECT_EQ(progress_.bytes, static_cast<int64_t>(film.size()));
  EXPECT_EQ(service_.calls(), 2);
}

TEST_F(FilmTest, FramesThatAServerRefusesTogetherGoAlone) {
  const std::string film = SlowFilm(40);
  service_.most_frames = 3;
  ASSERT_TRUE(Run(film).ok());
  EXPECT_EQ(sink_.bytes(), film);
  EXPECT_EQ(progress_.written, 40);
}

TEST_F(FilmTest, FramesGoTogetherAgainAfterARefusal) {
  options_.frames_ahead = 16;
  const std::string film = SlowFilm(400);
  service_.on_call = [](int call, std::stop_token) {
    return call < 20 ? absl::ResourceExhaustedError("full") : absl::OkStatus();
  };
  // A frame is tried again by its own call while the service is full.
  service_.refuses_single_frames = false;
  ASSERT_TRUE(Run(film).ok());
  EXPECT_EQ(sink_.bytes(), film);
  EXPECT_GT(service_.longest(), 2);
}

// Only limits refuse several frames and take one.
TEST_F(FilmTest, AFailureOfSeveralFramesIsNotTriedOneByOne) {
  service_.refuses_single_frames = false;
  service_.on_call = [](int, std::stop_token) { return absl::InternalError("the device failed"); };
  const absl::Status status = Run(SlowFilm(64));
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("the device failed"));
}

TEST_F(FilmTest, TheFrameThatFailsIsNamedAlsoAmongOthers) {
  const std::string film = SlowFilm(40);
  service_.most_frames = 0;
  const absl::Status status = Run(film);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("frame 0: "));
  EXPECT_EQ(progress_.written, 0);
}

TEST_F(FilmTest, PpmFramesOfOtherSizesDoNotGoTogether) {
  std::string film;
  for (int i = 0; i < 20; ++i)
    absl::StrAppend(&film, i % 2 == 0 ? "P5\n16 8\n255\n" : "P5\n8 16\n255\n",
                    std::string(128, static_cast<char>('a')));
  ASSERT_TRUE(Run(film).ok());
  EXPECT_EQ(sink_.bytes(), film);
}

TEST_F(FilmTest, CountsPixelsThatDidNotChange) {
  service_.unchanged_px = 5;
  const std::string film = FilmOf("aab");
  ASSERT_TRUE(Run(film).ok());
  EXPECT_EQ(progress_.source_px, 3 * 16);
  // All of the frame equal to another.
  EXPECT_EQ(progress_.unchanged_px, 16 + 2 * 5);
}

// Frames of one gray and of noise of two levels around it.
std::string NoisyFilm(int frames) {
  std::string film = "YUV4MPEG2 W20 H12 F24:1 Cmono XCOLORRANGE=FULL\n";
  for (int i = 0; i < frames; ++i) {
    std::string frame(20 * 12, static_cast<char>(100));
    for (size_t at = 0; at < frame.size(); ++at)
      frame[at] = static_cast<char>(
          100 + (i == 0 ? 0 : static_cast<int>((at * 7 + at / 5 + 3 * i) % 5) - 2));
    absl::StrAppend(&film, "FRAME\n", frame);
  }
  return film;
}

TEST_F(FilmTest, HeldNoiseCostsNothing) {
  const std::string film = NoisyFilm(9);
  options_.hold_noise = 2;
  ASSERT_TRUE(Run(film).ok());
  std::string still = NoisyFilm(1);
  const std::string frame = still.substr(still.find("FRAME"));
  for (int i = 1; i < 9; ++i) still += frame;
  EXPECT_EQ(sink_.bytes(), still);
  EXPECT_EQ(service_.calls(), 1);
  EXPECT_EQ(progress_.repeated, 8);
}

TEST_F(FilmTest, HeldNoiseIsTheSameFromAnyFrameOn) {
  const std::string film = NoisyFilm(9);
  const size_t header_bytes = film.find("FRAME"), frame_bytes = (film.size() - header_bytes) / 9;
  options_.hold_noise = 2;
  ASSERT_TRUE(Run(film).ok());
  const std::string whole = sink_.bytes();
  for (int resume_at = 1; resume_at < 9; ++resume_at) {
    options_.resume_at = resume_at;
    sink_ = MemorySink();
    progress_ = {};
    ASSERT_TRUE(Run(film).ok());
    std::string rest = whole;
    EXPECT_EQ(sink_.bytes(), rest.erase(header_bytes, resume_at * frame_bytes)) << resume_at;
  }
}

TEST_F(FilmTest, MoreNoiseThanIsHeldStays) {
  const std::string film = NoisyFilm(9);
  for (const int levels : {0, 1}) {
    options_.hold_noise = levels;
    sink_ = MemorySink();
    progress_ = {};
    ASSERT_TRUE(Run(film).ok());
    EXPECT_EQ(sink_.bytes(), film) << levels;
  }
}

TEST_F(FilmTest, NoiseOfFilesIsNotHeld) {
  options_.hold_noise = 2;
  const absl::Status status = Run("P5\n1 1\n255\na");
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("YUV4MPEG2"));
}

// The service gives images back, and chroma does not go through it: even noise comes back.
TEST_F(FilmTest, ResampledChromaOfOneSizeIsTheFilms) {
  options_.reader.resamples_chroma = true;
  for (const char* const tags : {"C420jpeg", "C422", "C444", "C420p10"}) {
    std::string film = absl::StrCat("YUV4MPEG2 W6 H4 F24:1 ", tags, " XCOLORRANGE=FULL\n");
    const bool is_wide = absl::StrContains(tags, "10");
    const size_t samples = absl::StrContains(tags, "420")   ? 36
                           : absl::StrContains(tags, "422") ? 48
                                                            : 72;
    for (int i = 0; i < 3; ++i) {
      std::string frame;
      for (size_t at = 0; at < samples; ++at) {
        frame.push_back(static_cast<char>(at * 37 + 11 * i));
        if (is_wide) frame.push_back(static_cast<char>((at + i) % 4));
      }
      absl::StrAppend(&film, "FRAME\n", frame);
    }
    sink_ = MemorySink();
    progress_ = {};
    ASSERT_TRUE(Run(film).ok());
    EXPECT_EQ(sink_.bytes(), film) << tags;
  }
}

TEST_F(FilmTest, ChromaOfRgbIsNotResampled) {
  options_.reader.resamples_chroma = true;
  const absl::Status status = Run("P6\n1 1\n255\nabc");
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("RGB"));
}

TEST_F(FilmTest, FramesOfPngKeepTheirOwnSizes) {
  const FilmFormat ppm{.kind = FrameKind::kPpm};
  const std::string film = *FrameToPng("P5 1 1 255\na", ppm) + *FrameToPng("P6 1 1 255\nabc", ppm);
  ASSERT_TRUE(Run(film).ok());
  EXPECT_EQ(sink_.bytes(), film);
}

}  // namespace
}  // namespace upscaled::client
