#include "server/handlers/shared_computation.h"

#include <algorithm>
#include <span>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/base/thread_name.h"
#include "engine/image/memory_io.h"
#include "server/calls/call_steps.h"
#include "server/handlers/compute_and_store.h"
#include "server/handlers/result_sharing.h"
#include "server/options/contract_values.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;

// Cuts a result into a flight's blocks.
class FlightSink final : public ByteSink {
 public:
  explicit FlightSink(Flight& flight) : flight_(flight) {}

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
    return block_.empty() ? absl::OkStatus() : flight_.Append(std::exchange(block_, std::string()));
  }

 private:
  Flight& flight_;
  std::string block_;
};

size_t HeldBytes(const SharedComputation& computation) {
  return computation.flight->source()->size() + computation.kept_bytes;
}

absl::StatusOr<pb::UpscaleSummary> Compute(const SharedComputation& computation,
                                           const CallContext& context) {
  Flight& flight = *computation.flight;
  const Clock& clock = computation.environment.clock;
  MemorySource input{std::span<const uint8_t>(*flight.source())};
  FlightSink output(flight);
  const ImageStreams streams{
      .input = input,
      .output = output,
      .buffer_bytes = HeldBytes(computation),
      .on_header =
          [&](const pb::UpscaleImageHeader& header) {
            flight.Announce(header, header.has_estimate()
                                        ? clock.Now() + FromProto(header.estimate())
                                        : absl::InfinitePast());
            return absl::OkStatus();
          },
      .on_progress = [&](int64_t done, int64_t total) { flight.ReportProgress(done, total); }};
  ASSIGN_OR_RETURN(
      pb::UpscaleSummary summary,
      ComputeAndStore(computation.environment, context, computation.request, streams, &flight));
  RETURN_IF_ERROR(output.Flush());
  return summary;
}

using Reservation = AdmissionController::Reservation;

// The memory for waiters' requests after the computation.
ResourceRequest HeldMemory(const SharedComputation& computation, const Payer& payer) {
  return {.memory_bytes = static_cast<int64_t>(HeldBytes(computation)), .payer = payer};
}

// Keeps the memory of an ended computation reserved while a caller waits. Charges the longest
// waiting caller.
void Hold(const SharedComputation& computation, std::shared_ptr<Reservation> reservation) {
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

void End(const SharedComputation& computation, absl::StatusOr<pb::UpscaleSummary> summary) {
  computation.environment.sharing->in_flight().Remove(*computation.request.key,
                                                      *computation.flight);
  computation.flight->Finish(std::move(summary), computation.record);
}

void Run(const SharedComputation& computation, std::shared_ptr<Reservation> reservation) {
  NameThread("computation");
  pb::UpscaleSummary summary;
  const absl::Status status = GuardHandler(*computation.record, [&]() -> absl::Status {
    const CallContext context{.cancellation = computation.flight->cancellation(),
                              .record = *computation.record,
                              .start = computation.start,
                              .reservation = *reservation,
                              .payer = computation.payer,
                              .deadline = computation.deadline};
    ASSIGN_OR_RETURN(summary, Compute(computation, context));
    return absl::OkStatus();
  });
  if (reservation->holds()) Hold(computation, std::move(reservation));
  if (status.ok()) return End(computation, std::move(summary));
  End(computation, status);
}

}  // namespace

void StartComputation(SharedComputation computation) {
  const auto shared = std::make_shared<const SharedComputation>(std::move(computation));
  // Until the computation's need is known and takes its place.
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
