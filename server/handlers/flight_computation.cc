#include "server/handlers/flight_computation.h"

#include <algorithm>
#include <span>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/image/memory_io.h"
#include "server/calls/call_steps.h"
#include "server/handlers/compute_image.h"
#include "server/handlers/convert.h"
#include "server/handlers/result_headers.h"
#include "server/handlers/result_sharing.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;

// Cuts a result into a flight's blocks, and writes them into the store first, where that can be.
class FlightSink final : public ByteSink {
 public:
  FlightSink(Flight& flight, ResultStore::Writer* writer) : flight_(flight), writer_(writer) {}

  absl::Status Write(std::span<const uint8_t> bytes) override {
    while (!bytes.empty()) {
      if (block_.empty()) block_.reserve(Flight::kBlockBytes);
      const size_t count = std::min(bytes.size(), Flight::kBlockBytes - block_.size());
      block_.append(reinterpret_cast<const char*>(bytes.data()), count);
      bytes = bytes.subspan(count);
      if (block_.size() == Flight::kBlockBytes) RETURN_IF_ERROR(Flush());
    }
    return absl::OkStatus();
  }

  absl::Status Flush() {
    if (block_.empty()) return absl::OkStatus();
    if (writer_ != nullptr) writer_->Append(AsBytes(block_));
    return flight_.Append(std::exchange(block_, std::string()));
  }

 private:
  Flight& flight_;
  ResultStore::Writer* const writer_;  // null: none
  std::string block_;
};

absl::StatusOr<ComputedImage> Compute(const FlightComputation& computation,
                                      const CallContext& context) {
  ResultSharing& sharing = *computation.environment.sharing;
  Flight& flight = *computation.flight;
  const std::unique_ptr<ResultStore::Writer> writer =
      sharing.store() == nullptr ? nullptr : sharing.store()->Create();
  if (writer != nullptr) flight.SetReadBack(writer->read_back());
  MemorySource input{std::span<const uint8_t>(*flight.source())};
  FlightSink output(flight, writer.get());
  pb::UpscaleImageHeader announced;
  const ComputeJob job{
      .options = computation.options,
      .models = computation.models,
      .input = input,
      .output = output,
      .buffer_bytes = flight.source()->size() + computation.kept_bytes,
      .name_for =
          [&](std::string_view arithmetic) { return sharing.NameOf(computation.key, arithmetic); },
      .on_header =
          [&](const pb::UpscaleImageHeader& header) {
            announced = header;
            flight.Announce(header.SerializeAsString(),
                            header.has_estimate()
                                ? computation.environment.clock.Now() + FromProto(header.estimate())
                                : absl::InfinitePast());
            return absl::OkStatus();
          },
      .on_progress = [&](int64_t done, int64_t total) { flight.ReportProgress(done, total); },
      .meter = flight.meter(),
      .payers = flight.payers()};
  ASSIGN_OR_RETURN(ComputedImage computed, ComputeImage(computation.environment, context, job));
  RETURN_IF_ERROR(output.Flush());
  computed.summary.set_etag(announced.etag());
  if (writer != nullptr) {
    writer->Commit({.name = announced.etag(),
                    .tenant = computation.payer.tenant,
                    .media_type = computation.media_type,
                    .header = StoredHeader(announced, computed.summary).SerializeAsString(),
                    .source = computation.source_digest,
                    .source_header = computation.source_header});
  }
  return computed;
}

using Reservation = AdmissionController::Reservation;

// The memory for what waiters can still ask for when the computation is over.
ResourceRequest HeldMemory(const FlightComputation& computation, const Payer& payer) {
  const size_t bytes = computation.flight->source()->size() + computation.kept_bytes;
  return {.memory_bytes = static_cast<int64_t>(bytes), .payer = payer};
}

// Keeps the memory of an ended computation reserved while a caller waits. Charges the one that has
// waited longest.
void Hold(const FlightComputation& computation, std::shared_ptr<Reservation> reservation) {
  const ResourceRequest held = HeldMemory(computation, reservation->payer());
  reservation->Change(held).IgnoreError();  // less than before: it fits
  const auto follow = [watched = std::weak_ptr<Reservation>(reservation),
                       payers = std::weak_ptr<Payers>(computation.flight->payers())] {
    const std::shared_ptr<Reservation> open = watched.lock();
    const std::shared_ptr<Payers> waiting = payers.lock();
    if (open == nullptr || waiting == nullptr) return;
    if (const auto list = waiting->list(); !list.empty()) {
      open->ChargeMemoryTo(list.front().address);
    }
  };
  computation.flight->payers()->Listen(follow);
  follow();
  computation.flight->HoldForWaiters(std::move(reservation));
}

void End(const FlightComputation& computation, absl::StatusOr<std::string> summary) {
  computation.environment.sharing->in_flight().Remove(computation.key, *computation.flight);
  computation.flight->Finish(std::move(summary), computation.record);
}

void Run(const FlightComputation& computation, std::shared_ptr<Reservation> reservation) {
  std::string summary;
  const absl::Status status = GuardHandler(*computation.record, [&]() -> absl::Status {
    const CallContext context{.cancellation = computation.flight->cancellation(),
                              .record = *computation.record,
                              .start = computation.start,
                              .reservation = *reservation,
                              .payer = computation.payer,
                              .deadline = computation.deadline};
    ASSIGN_OR_RETURN(const ComputedImage computed, Compute(computation, context));
    summary = computed.summary.SerializeAsString();
    return absl::OkStatus();
  });
  if (reservation->holds()) Hold(computation, std::move(reservation));
  if (status.ok()) return End(computation, std::move(summary));
  End(computation, status);
}

}  // namespace

void StartComputation(FlightComputation computation) {
  const auto shared = std::make_shared<const FlightComputation>(std::move(computation));
  // Until it is known what the computation needs, which takes its place.
  absl::StatusOr<Reservation> reserved =
      shared->environment.admission.Reserve(HeldMemory(*shared, shared->payer));
  if (!reserved.ok()) return End(*shared, reserved.status());
  auto reservation = std::make_shared<Reservation>(*std::move(reserved));
  auto run = [shared, reservation = std::move(reservation)]() mutable {
    Run(*shared, std::move(reservation));
  };
  if (!shared->environment.sharing->workers().Run(std::move(run))) End(*shared, OutOfThreads());
}

}  // namespace upscaled::server
