#include "server/batching/request_flow.h"

#include "server/batching/tile_scheduler.h"

namespace upscaled::server {

RequestFlow::~RequestFlow() {
  if (flow_ != nullptr) scheduler_.Close(*flow_);
}

void RequestFlow::Adopt(DeviceChooser::Choice choice) {
  scheduler_.Adopt(*flow_, std::move(choice));
}

absl::StatusOr<int> RequestFlow::KeepClass() { return scheduler_.KeepClass(*flow_); }

void RequestFlow::Submit(std::shared_ptr<const Executable> executable, std::vector<TileTask> tiles,
                         Cancellation* cancellation, TileDone done) {
  scheduler_.Submit(flow_, *executable, std::move(tiles), cancellation, std::move(done));
}

void RequestFlow::ExpectTiles(bool more) { scheduler_.ExpectTiles(*flow_, more); }

void RequestFlow::SetClientWait(bool waits) { scheduler_.SetClientWait(*flow_, waits); }

int RequestFlow::concurrency() const { return scheduler_.concurrency(); }

RequestUsage RequestFlow::usage() const { return scheduler_.UsageOf(*flow_); }

Payer RequestFlow::payer() const { return scheduler_.PayerOf(*flow_); }

}  // namespace upscaled::server
