#include "server/sandbox/decode_sandbox.h"

#include <cstring>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/int_math.h"
#include "engine/base/status_macros.h"
#include "engine/image/memory_io.h"
#include "server/base/error.h"
#include "server/sandbox/sandboxed_decoder.h"

namespace upscaled::server {
namespace {

constexpr absl::Duration kProcessRetryDelay = absl::Seconds(1);

// A fork takes half a millisecond and an image of 64x64 pixels a core for six: at half of what it
// could fork, a nursery serves so many.
constexpr int kCpusPerNursery = 8;

absl::Status NoWorker(const absl::Status& why) {
  return MakeOverloaded(absl::StrCat("there is no process to decode the image: ", why.message()),
                        kProcessRetryDelay);
}

// Decodes an image of one pixel.
absl::Status Probe(DecodeSandbox& sandbox) {
  Image pixel({.width_px = 1, .height_px = 1, .channels = 3, .type = SampleType::kU8});
  std::memset(pixel.mutable_view().data, 0, pixel.spec().row_bytes());
  StringSink sink;
  ASSIGN_OR_RETURN(const auto encoder, CreateImageEncoder({}, pixel.spec(), {}, sink));
  RETURN_IF_ERROR(encoder->WriteRows(pixel.view()));
  RETURN_IF_ERROR(encoder->Finish());

  MemorySource source(sink.bytes());
  std::vector<uint8_t> prefix;
  const DecodeLimits limits;
  ASSIGN_OR_RETURN(const ImageHeader header, ReadImageHeader(source, limits, prefix));
  MemorySource again(sink.bytes());
  ASSIGN_OR_RETURN(const auto decoder, sandbox.Open(header, again, limits, nullptr));
  return decoder->ReadRows(pixel.mutable_view());
}

}  // namespace

std::filesystem::path DecodeWorkerProgram() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  return program.parent_path() / "upscaled-decode";
}

DecodeSandbox::DecodeSandbox(std::filesystem::path program, int cpus)
    : program_(std::move(program)),
      turns_(cpus, Clock::Real()),
      nurseries_(CeilDiv(cpus, kCpusPerNursery)) {}

absl::StatusOr<std::unique_ptr<DecodeSandbox>> DecodeSandbox::Start(std::filesystem::path program,
                                                                    int cpus) {
  std::unique_ptr<DecodeSandbox> sandbox(new DecodeSandbox(std::move(program), cpus));
  if (absl::Status status = Probe(*sandbox); !status.ok()) {
    return absl::UnavailableError(absl::StrCat(
        "the decoders' sandbox does not work here: ", status.message(), " (--decode-sandbox)"));
  }
  sandbox->crashes_ = 0;
  return sandbox;
}

absl::StatusOr<std::unique_ptr<ImageDecoder>> DecodeSandbox::Open(const ImageHeader& header,
                                                                  ByteSource& source,
                                                                  const DecodeLimits& limits,
                                                                  Cancellation* cancellation,
                                                                  const DecodeAccount& account) {
  absl::StatusOr<WorkerProcess> worker = StartWorker();
  if (!worker.ok()) return NoWorker(worker.status());
  auto decoder = std::make_unique<SandboxedDecoder>(*std::move(worker), header, source, limits,
                                                    cancellation, turns_, account, crashes_);
  const absl::Status status = decoder->Open();
  if (status.ok()) return decoder;
  const bool cancelled = cancellation != nullptr && cancellation->IsCancelled();
  if (decoder->has_sent_input() || cancelled || !absl::IsUnavailable(status)) return status;
  return NoWorker(status);
}

absl::StatusOr<WorkerProcess> DecodeSandbox::StartWorker() {
  Nursery& nursery = nurseries_[next_nursery_++ % nurseries_.size()];
  absl::MutexLock lock(&nursery.mutex);
  if (nursery.zygote.has_value()) {
    absl::StatusOr<WorkerProcess> worker = nursery.zygote->Fork();
    if (!absl::IsAborted(worker.status())) return worker;
    nursery.zygote.reset();
  }
  ASSIGN_OR_RETURN(WorkerZygote zygote, WorkerZygote::Start(program_));
  return nursery.zygote.emplace(std::move(zygote)).Fork();
}

}  // namespace upscaled::server
