#include "tests/engine/backends/cuda/emulator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/backends/cuda/kernels/device.h"
#include "engine/backends/cuda/kernels/half_bits.h"
#include "engine/backends/cuda/kernels/wgmma_operand.h"
#include "engine/model/half.h"
#include "gtest/gtest-spi.h"
#include "gtest/gtest.h"
#include "tests/engine/backends/cuda/fiber.h"

namespace upscaled {
namespace {

constexpr int kWarp = 32, kGroup = 128;
constexpr uint32_t kSharedBase = 1024;  // dynamic shared memory's place in its state space
constexpr size_t kLineBytes = 16;       // the unit of copies and operands' rows

struct Copy {
  uint32_t to;
  const void* from;  // null: zeros
};

// A lane's part of an m16n8k16 product.
struct LaneProduct {
  float* sums;
  std::array<uint32_t, 6> operands;
};

// Products of 128 threads: where their sums are, how many columns they have, and the operands.
struct Products {
  std::array<float*, kGroup> sums;
  int columns;
  uint64_t a, b;
  bool add;
};

struct Barrier {
  int arrivals;         // per phase
  int missing;          // in the current phase
  int parity;           // the current phase's
  int64_t bytes = 0;    // of copies that are expected in it, and not there
  bool fenced = false;  // the copy engine sees it
};

// An order to the copy engine, carried out at some later time.
struct Order {
  enum Kind { kLoadBox, kStoreBox, kCopyBulk } kind;
  const cuda::TensorMap* map = nullptr;
  std::array<int, 4> at = {};
  uint32_t shared = 0;
  const void* from = nullptr;  // kCopyBulk
  uint32_t bytes = 0;
  uint32_t barrier = 0;  // of what comes
  int thread = 0;        // that ordered it
  bool last = false;     // only when no thread can go on without it
};

// Threads in a joint operation: each one's contribution, and their number.
struct Meeting {
  int arrived = 0;
  uint64_t number = 0;  // meetings before
};

struct Thread {
  test::Fiber* fiber = nullptr;
  int index = 0;
  bool done = false;
  std::function<bool()> ready;         // null: can go on
  cuda::Patience* patience = nullptr;  // of the wait, if it may give up
  std::vector<Copy> copies;            // since the last commit, none of which has happened
  std::deque<std::vector<Copy>> groups;
  std::vector<LaneProduct> products;  // since the warp's last meeting
  // The thread's arguments in a meeting of its warp or group.
  uint32_t address = 0;
  uint32_t* loaded = nullptr;
  const uint32_t* stored = nullptr;
  float* sums = nullptr;
  int value = 0;
};

float FloatOf(uint16_t half) {
  static const auto* const kFloats = [] {
    auto* floats = new std::vector<float>(1 << 16);
    for (size_t i = 0; i < floats->size(); ++i) {
      (*floats)[i] = HalfToFloat(static_cast<uint16_t>(i));
    }
    return floats;
  }();
  return (*kFloats)[half];
}

class Block {
 public:
  Block(const test::EmulatedGrid& grid, const std::function<void()>& kernel, std::mt19937& random)
      : grid_(grid),
        kernel_(kernel),
        random_(random),
        shared_(new (std::align_val_t{128}) unsigned char[grid.shared_bytes]),
        invisible_(grid.shared_bytes / kLineBytes + 1, -1),
        warps_((grid.threads + kWarp - 1) / kWarp),
        groups_((grid.threads + kGroup - 1) / kGroup),
        products_(groups_.size()),
        committed_(groups_.size()) {}

  void Run(int x, int y, int z);

  int x() const { return x_; }
  int y() const { return y_; }
  int z() const { return z_; }
  const test::EmulatedGrid& grid() const { return grid_; }
  Thread& thread() { return *current_; }
  unsigned char* shared() { return shared_.get(); }

  // Suspends the current thread until `ready` holds, or its patience, if it has one, is used up.
  void WaitUntil(std::function<bool()> ready, cuda::Patience* patience = nullptr) {
    current_->ready = std::move(ready);
    current_->patience = patience;
    current_->fiber->Suspend();
  }
  // Suspends until as many threads as `size` meet; the last one does `work` before all go on.
  void Meet(Meeting& meeting, int size, const std::function<void()>& work) {
    const uint64_t number = meeting.number;
    if (++meeting.arrived == size) {
      work();
      meeting.arrived = 0;
      ++meeting.number;
      return;
    }
    WaitUntil([&meeting, number] { return meeting.number != number; });
  }
  void MeetBlock() {
    Meet(block_, running_, [this] {
      for (size_t warp = 0; warp < warps_.size(); ++warp) MultiplyAll(static_cast<int>(warp));
    });
  }
  // The products of a warp happen when it meets next, to save most of its meetings.
  void MeetWarp(const std::function<void()>& work) {
    const int warp = current_->index / kWarp;
    Meet(warps_[warp], kWarp, [&] {
      MultiplyAll(warp);
      work();
    });
  }
  void MeetGroup(const std::function<void()>& work) {
    Meet(groups_[current_->index / kGroup], kGroup, work);
  }
  Thread& WarpThread(int lane) { return threads_[current_->index / kWarp * kWarp + lane]; }

  bool Chance() { return random_() % 2 == 0; }
  void Perform(const Copy& copy);
  void Fence();

  void InitBarrier(uint32_t at, int arrivals) {
    CheckShared(at, 8, 8);
    barriers_[at] = {arrivals, arrivals, 0};
  }
  void Arrive(uint32_t at, uint32_t bytes = 0);
  bool IsComplete(uint32_t at, int parity) { return BarrierAt(at).parity != parity; }

  // Gives the copy engine an order: carried out at once, later, or as late as can be.
  void Give(Order order);
  // Until the engine has done the thread's stores.
  void AwaitStores();
  void FenceBarriers() {
    for (auto& [at, barrier] : barriers_) barrier.fenced = true;
  }
  void MeetWarps(int place, int threads) {
    Meet(places_[place], threads, [] {});
  }
  void CheckShared(uint32_t at, size_t bytes, size_t alignment) {
    if (at + bytes > grid_.shared_bytes || at % alignment != 0) {
      ADD_FAILURE() << bytes << " bytes of shared memory at " << at << ", to be aligned to "
                    << alignment << ", of " << grid_.shared_bytes;
    }
  }
  // A write, visible to others after a fence of this thread.
  void Hide(uint32_t at, int thread) { invisible_[at / kLineBytes] = thread; }

  void AddProducts(float* sums, int columns, uint64_t a, uint64_t b, bool add);
  void CommitProducts();
  void WaitProducts(int pending);

 private:
  // The body of a thread.
  void RunThread();
  void MultiplyAll(int warp);
  float OperandValue(uint64_t operand, int row, int k);
  void Perform(const Products& products);
  void Perform(const Order& order);
  void PerformSome(bool threads_wait);
  bool GiveUpOne();
  Barrier& BarrierAt(uint32_t at) {
    if (barriers_.count(at) == 0) ADD_FAILURE() << "no barrier at " << at;
    return barriers_[at];
  }
  static void Settle(Barrier& barrier);

  struct Free {
    void operator()(unsigned char* bytes) const {
      ::operator delete[](bytes, std::align_val_t{128});
    }
  };

  const test::EmulatedGrid& grid_;
  const std::function<void()>& kernel_;
  std::mt19937& random_;
  int x_ = 0, y_ = 0, z_ = 0;
  std::unique_ptr<unsigned char[], Free> shared_;
  std::vector<int> invisible_;  // for each line: who wrote it without a fence, or -1
  std::vector<Thread> threads_;
  Thread* current_ = nullptr;
  int running_ = 0;
  Meeting block_;
  std::vector<Meeting> warps_, groups_;
  std::map<int, Meeting> places_;
  std::map<uint32_t, Barrier> barriers_;
  std::vector<Order> orders_;                                 // not yet carried out
  std::vector<std::vector<Products>> products_;               // for each group, not yet committed
  std::vector<std::deque<std::vector<Products>>> committed_;  // not yet waited for
};

Block* g_block = nullptr;  // that runs
test::PlantedFault g_fault;
int g_faulty_calls = 0;

bool Lacks(test::PlantedFault::Call call, uint32_t at = 0) {
  if (g_fault.call != call || at < g_fault.first || at >= g_fault.end) return false;
  return g_fault.only < 0 || g_faulty_calls++ == g_fault.only;
}

// Kept from block to block and launch to launch: ThreadSanitizer takes long to make one.
std::vector<std::unique_ptr<test::Fiber>>& Fibers() {
  static auto* const fibers = new std::vector<std::unique_ptr<test::Fiber>>;
  return *fibers;
}

void Block::RunThread() {
  kernel_();
  current_->done = true;
  --running_;
  // Threads waiting for all may have waited for this one.
  if (running_ > 0 && block_.arrived == running_) {
    block_.arrived = 0;
    ++block_.number;
  }
}

void Block::Run(int x, int y, int z) {
  x_ = x;
  y_ = y;
  z_ = z;
  g_block = this;
  std::memset(shared_.get(), 0xff, grid_.shared_bytes);
  threads_ = std::vector<Thread>(grid_.threads);
  running_ = grid_.threads;
  auto& fibers = Fibers();
  while (fibers.size() < threads_.size()) fibers.push_back(std::make_unique<test::Fiber>());
  for (Thread& thread : threads_) {
    thread.index = static_cast<int>(&thread - threads_.data());
    thread.fiber = fibers[thread.index].get();
    thread.fiber->Start([this] { RunThread(); });
  }
  int starved = -1;  // the group of threads that waits until no other can go on, if any
  while (running_ > 0) {
    if (random_() % 16 == 0) starved = static_cast<int>(random_() % (groups_.size() + 1)) - 1;
    // A random thread, and those after it, as far as they can go on.
    bool progress = false;
    const size_t first = random_() % threads_.size();
    for (size_t i = 0; i < threads_.size(); ++i) {
      Thread& thread = threads_[(first + i) % threads_.size()];
      if (thread.done || thread.index / kGroup == starved) continue;
      if (thread.ready && !thread.ready()) continue;
      thread.ready = nullptr;
      progress = true;
      current_ = &thread;
      thread.fiber->Resume();
    }
    if (!progress && std::exchange(starved, -1) >= 0) continue;
    const bool orders = !orders_.empty();
    PerformSome(!progress);
    if (!progress && !orders && !GiveUpOne()) {
      ADD_FAILURE() << running_ << " threads wait for each other";
      fibers.clear();  // theirs will never return
      break;
    }
  }
  if (!orders_.empty()) ADD_FAILURE() << orders_.size() << " copies outlive the block";
  for (const auto& [at, barrier] : barriers_) {
    if (barrier.bytes != 0) ADD_FAILURE() << "the barrier at " << at << " still expects bytes";
  }
  g_block = nullptr;
}

// Uses up the patience of a random thread that waits, or of all that wait in its group, as they do
// on a device; false without one.
bool Block::GiveUpOne() {
  std::vector<Thread*> patient;
  for (Thread& thread : threads_) {
    if (!thread.done && thread.ready && thread.patience != nullptr) patient.push_back(&thread);
  }
  if (patient.empty()) return false;
  const Thread* const chosen = patient[random_() % patient.size()];
  const bool alone = Chance();
  for (Thread* thread : patient) {
    if (alone ? thread != chosen : thread->index / kGroup != chosen->index / kGroup) continue;
    thread->patience->tries = 0;
    thread->ready = nullptr;
  }
  return true;
}

void Block::Perform(const Copy& copy) {
  if (copy.from == nullptr) {
    std::memset(shared() + copy.to, 0, kLineBytes);
  } else {
    std::memcpy(shared() + copy.to, copy.from, kLineBytes);
  }
  invisible_[copy.to / kLineBytes] = current_->index;
}

void Block::Fence() { std::replace(invisible_.begin(), invisible_.end(), current_->index, -1); }

void Block::Settle(Barrier& barrier) {
  if (barrier.missing > 0 || barrier.bytes != 0) return;
  barrier.missing = barrier.arrivals;
  barrier.parity ^= 1;
}

void Block::Arrive(uint32_t at, uint32_t bytes) {
  Barrier& barrier = BarrierAt(at);
  if (barrier.missing == 0) ADD_FAILURE() << "too many arrivals at " << at;
  barrier.bytes += bytes;
  --barrier.missing;
  Settle(barrier);
}

void Block::Give(Order order) {
  order.thread = current_->index;
  if (order.kind != Order::kStoreBox && !BarrierAt(order.barrier).fenced) {
    ADD_FAILURE() << "no fence before the copy engine counts at the barrier " << order.barrier;
  }
  const auto when = random_() % 4;
  order.last = when >= 2;
  if (when == 0) {
    Perform(order);
  } else {
    orders_.push_back(order);
  }
}

void Block::PerformSome(bool threads_wait) {
  for (size_t i = 0; i < orders_.size();) {
    if (orders_[i].last ? threads_wait && Chance() : random_() % 4 == 0) {
      const Order order = orders_[i];
      orders_.erase(orders_.begin() + static_cast<std::ptrdiff_t>(i));
      Perform(order);
    } else {
      ++i;
    }
  }
}

// A box lies in shared memory without gaps; beyond the tensor it is zeros, and is not stored.
void Block::Perform(const Order& order) {
  Barrier* const barrier = order.kind == Order::kStoreBox ? nullptr : &BarrierAt(order.barrier);
  if (order.kind == Order::kCopyBulk) {
    std::memcpy(shared() + order.shared, order.from, order.bytes);
  } else {
    const cuda::TensorBoxes& map = *order.map;
    const auto run_bytes = static_cast<size_t>(cuda::kPlaneChannels) * 2;
    uint32_t at = order.shared;
    for (int i = 0; i < map.box[1] * map.box[2]; ++i) {
      const int64_t y = order.at[1] + i % map.box[1], plane = order.at[2] + i / map.box[1];
      for (int x = 0; x < map.box[0]; x += cuda::kPlaneChannels, at += run_bytes) {
        const int64_t first = order.at[0] + x, tile = order.at[3];
        const bool inside = first >= 0 && first < map.sizes[0] && y >= 0 && y < map.sizes[1] &&
                            plane >= 0 && plane < map.sizes[2] && tile >= 0 && tile < map.sizes[3];
        unsigned char* const value = static_cast<unsigned char*>(map.base) + first * 2 +
                                     y * map.strides[0] + plane * map.strides[1] +
                                     tile * map.strides[2];
        if (order.kind == Order::kStoreBox) {
          if (invisible_[at / kLineBytes] >= 0) {
            ADD_FAILURE() << "no fence before the copy engine reads " << at;
          }
          if (inside) std::memcpy(value, shared() + at, run_bytes);
        } else if (inside) {
          std::memcpy(shared() + at, value, run_bytes);
        } else {
          std::memset(shared() + at, 0, run_bytes);
        }
      }
    }
  }
  if (barrier == nullptr) return;
  barrier->bytes -= order.bytes;
  Settle(*barrier);
}

void Block::AwaitStores() {
  const int thread = current_->index;
  WaitUntil([this, thread] {
    return std::none_of(orders_.begin(), orders_.end(), [thread](const Order& order) {
      return order.kind == Order::kStoreBox && order.thread == thread;
    });
  });
}

float Block::OperandValue(uint64_t operand, int row, int k) {
  const uint32_t at = cuda::OperandAddress(operand, row, k) - kSharedBase;
  if (at + sizeof(uint16_t) > grid_.shared_bytes) {
    ADD_FAILURE() << "an operand ends behind the shared memory: " << at;
    return 0;
  }
  if (invisible_[at / kLineBytes] >= 0) ADD_FAILURE() << "no fence before products read " << at;
  uint16_t half;
  std::memcpy(&half, shared() + at, sizeof(half));
  return FloatOf(half);
}

void Block::Perform(const Products& products) {
  constexpr int kRows = 64, kDepth = 16;
  std::vector<float> a(kRows * kDepth), b(products.columns * kDepth);
  for (int i = 0; i < kRows * kDepth; ++i) {
    a[i] = OperandValue(products.a, i / kDepth, i % kDepth);
  }
  for (int i = 0; i < products.columns * kDepth; ++i) {
    b[i] = OperandValue(products.b, i / kDepth, i % kDepth);
  }
  for (int thread = 0; thread < kGroup; ++thread) {
    for (int i = 0; i < products.columns / 2; ++i) {
      const int lane = thread % kWarp;
      const int row = thread / kWarp * 16 + lane / 4 + i / 2 % 2 * 8;
      const int column = i / 4 * 8 + lane % 4 * 2 + i % 2;
      float sum = products.add ? products.sums[thread][i] : 0.0f;
      for (int k = 0; k < kDepth; ++k) sum += a[row * kDepth + k] * b[column * kDepth + k];
      products.sums[thread][i] = sum;
    }
  }
}

// The lanes' products in their common order of issue.
void Block::MultiplyAll(int warp) {
  Thread* const lanes = &threads_[warp * kWarp];
  if (lanes[0].products.empty()) return;
  for (size_t i = 0; i < lanes[0].products.size(); ++i) {
    float rows[16][16], columns[8][16];
    for (int lane = 0; lane < kWarp; ++lane) {
      const auto half = [&](int operand, int part) {
        return FloatOf(
            static_cast<uint16_t>(lanes[lane].products.at(i).operands[operand] >> 16 * part));
      };
      for (int part = 0; part < 2; ++part) {
        for (int a = 0; a < 4; ++a) {
          rows[lane / 4 + a % 2 * 8][lane % 4 * 2 + a / 2 * 8 + part] = half(a, part);
        }
        for (int b = 0; b < 2; ++b)
          columns[lane / 4][lane % 4 * 2 + b * 8 + part] = half(4 + b, part);
      }
    }
    for (int lane = 0; lane < kWarp; ++lane) {
      for (int j = 0; j < 4; ++j) {
        const float* row = rows[lane / 4 + j / 2 * 8];
        const float* column = columns[lane % 4 * 2 + j % 2];
        for (int k = 0; k < 16; ++k) lanes[lane].products[i].sums[j] += row[k] * column[k];
      }
    }
  }
  for (int lane = 0; lane < kWarp; ++lane) lanes[lane].products.clear();
}

void Block::AddProducts(float* sums, int columns, uint64_t a, uint64_t b, bool add) {
  const int group = current_->index / kGroup;
  current_->sums = sums;
  MeetGroup([&] {
    Products products{{}, columns, a, b, add};
    for (int i = 0; i < kGroup; ++i) products.sums[i] = threads_[group * kGroup + i].sums;
    products_[group].push_back(products);
  });
}

void Block::CommitProducts() {
  const int group = current_->index / kGroup;
  MeetGroup([&] {
    committed_[group].push_back(std::move(products_[group]));
    products_[group].clear();
    if (Chance()) return;  // later
    for (std::vector<Products>& batch : committed_[group]) {
      for (const Products& products : batch) Perform(products);
      batch.clear();
    }
  });
}

void Block::WaitProducts(int pending) {
  const int group = current_->index / kGroup;
  MeetGroup([&] {
    auto& batches = committed_[group];
    while (static_cast<int>(batches.size()) > pending) {
      for (const Products& products : batches.front()) Perform(products);
      batches.pop_front();
    }
  });
}

}  // namespace

namespace test {

void Plant(const PlantedFault& fault) {
  g_fault = fault;
  g_faulty_calls = 0;
}

std::vector<std::string> FailuresWith(const PlantedFault& fault, const std::function<void()>& run) {
  testing::TestPartResultArray found;
  {
    testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &found);
    Plant(fault);
    run();
    Plant({});
  }
  std::vector<std::string> failures;
  for (int i = 0; i < found.size(); ++i)
    failures.emplace_back(found.GetTestPartResult(i).message());
  return failures;
}

bool IsNoticed(const PlantedFault& fault, const std::function<bool()>& is_right) {
  bool right = false;
  const bool finds = !FailuresWith(fault, [&] { right = is_right(); }).empty();
  return finds || !right;
}

void RunEmulated(const EmulatedGrid& grid, const std::function<void()>& kernel,
                 std::mt19937& random) {
  for (int z = 0; z < grid.z; ++z) {
    for (int y = 0; y < grid.y; ++y) {
      for (int x = 0; x < grid.x && !::testing::Test::HasFatalFailure(); ++x) {
        Block(grid, kernel, random).Run(x, y, z);
      }
    }
  }
}

}  // namespace test

namespace cuda {

int ThreadIndex() { return g_block->thread().index; }
int BlockX() { return g_block->x(); }
int BlockY() { return g_block->y(); }
int BlockZ() { return g_block->z(); }
int GridX() { return g_block->grid().x; }
unsigned char* SharedMemory() { return g_block->shared(); }
uint32_t SharedState(uint32_t address) { return kSharedBase + address; }

float HalfToFloat(uint16_t half) { return FloatOf(half); }
// As the device rounds: to infinity beyond the range.
uint16_t FloatToHalf(float value) {
  if (std::abs(value) >= kHalfEnd) return std::signbit(value) ? 0xfc00 : 0x7c00;
  return FloatToHalfBits(value);
}
void AtomicAdd(int64_t* sum, int64_t value) { *sum += value; }

using Fault = test::PlantedFault;

void SyncThreads() {
  if (!Lacks(Fault::kSyncThreads)) g_block->MeetBlock();
}
void SyncWarp() {
  if (!Lacks(Fault::kSyncWarp)) g_block->MeetWarp([] {});
}

int ShuffleXor(int value, int bits) {
  Thread& thread = g_block->thread();
  const int other = thread.index % kWarp ^ bits;
  thread.value = value;
  g_block->MeetWarp([] {});
  const int given = g_block->WarpThread(other).value;
  g_block->MeetWarp([] {});  // before the next one's values
  return given;
}

void CopyAsync16(uint32_t dst, const void* src, bool inside) {
  const Copy copy{dst, inside ? src : nullptr};
  if (g_block->Chance()) {
    g_block->Perform(copy);
  } else {
    g_block->thread().copies.push_back(copy);
  }
}
void CommitCopies() {
  Thread& thread = g_block->thread();
  thread.groups.push_back(std::move(thread.copies));
  thread.copies.clear();
}
void WaitPending(int pending) {
  if (Lacks(Fault::kWaitCopies)) return;
  auto& groups = g_block->thread().groups;
  while (static_cast<int>(groups.size()) > pending) {
    for (const Copy& copy : groups.front()) g_block->Perform(copy);
    groups.pop_front();
  }
}

void LoadMatrices(uint32_t (&matrices)[4], uint32_t address) {
  Thread& thread = g_block->thread();
  thread.address = address;
  thread.loaded = matrices;
  g_block->MeetWarp([] {
    for (int lane = 0; lane < kWarp; ++lane) {
      for (int matrix = 0; matrix < 4; ++matrix) {
        const uint32_t row = g_block->WarpThread(matrix * 8 + lane / 4).address;
        std::memcpy(&g_block->WarpThread(lane).loaded[matrix],
                    g_block->shared() + row + lane % 4 * 4, 4);
      }
    }
  });
}

// Calls visit(lane, matrix, part, address) for each half of the warp's four matrices, transposed.
template <typename Visit>
void VisitTransposed(const Visit& visit) {
  for (int lane = 0; lane < kWarp; ++lane) {
    for (int matrix = 0; matrix < 4; ++matrix) {
      for (int part = 0; part < 2; ++part) {
        const uint32_t row = g_block->WarpThread(matrix * 8 + lane % 4 * 2 + part).address;
        visit(lane, matrix, part, g_block->shared() + row + lane / 4 * sizeof(uint16_t));
      }
    }
  }
}
void LoadTransposed(uint32_t (&matrices)[4], uint32_t address) {
  Thread& thread = g_block->thread();
  thread.address = address;
  thread.loaded = matrices;
  g_block->MeetWarp([] {
    VisitTransposed([](int lane, int matrix, int part, const unsigned char* at) {
      uint16_t half;
      std::memcpy(&half, at, sizeof(half));
      uint32_t& pair = g_block->WarpThread(lane).loaded[matrix];
      pair = part == 0 ? half : pair | uint32_t{half} << 16;
    });
  });
}
void StoreTransposed(uint32_t address, const uint32_t (&matrices)[4]) {
  Thread& thread = g_block->thread();
  thread.address = address;
  thread.stored = matrices;
  g_block->MeetWarp([] {
    VisitTransposed([](int lane, int matrix, int part, unsigned char* at) {
      const auto half =
          static_cast<uint16_t>(g_block->WarpThread(lane).stored[matrix] >> 16 * part);
      std::memcpy(at, &half, sizeof(half));
      g_block->Hide(static_cast<uint32_t>(at - g_block->shared()),
                    g_block->WarpThread(matrix * 8 + lane % 4 * 2 + part).index);
    });
  });
}
uint32_t PackHalves(float low, float high) {
  return FloatToHalfBits(low) | uint32_t{FloatToHalfBits(high)} << 16;
}

void MultiplyAdd(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  g_block->thread().products.push_back({sum, {a[0], a[1], a[2], a[3], b0, b1}});
}

void InitBarrier(uint32_t barrier, int arrivals) { g_block->InitBarrier(barrier, arrivals); }
void Arrive(uint32_t barrier) {
  if (!Lacks(Fault::kArrive, barrier)) g_block->Arrive(barrier);
}
void WaitForPhase(uint32_t barrier, int parity, Patience& patience) {
  if (Lacks(Fault::kWaitForPhase, barrier) || g_block->IsComplete(barrier, parity)) return;
  if (patience.IsUsedUp()) return;
  g_block->WaitUntil([=] { return g_block->IsComplete(barrier, parity); }, &patience);
}
void ArriveExpecting(uint32_t barrier, uint32_t bytes) {
  if (Lacks(Fault::kArrive, barrier)) return;
  g_block->Arrive(barrier, Lacks(Fault::kExpectBytes, barrier) ? bytes / 2 : bytes);
}
void FenceBarriers() {
  if (!Lacks(Fault::kFenceBarriers)) g_block->FenceBarriers();
}
void SyncWarps(int place, int threads) {
  if (!Lacks(Fault::kSyncWarps)) g_block->MeetWarps(place, threads);
}
void LoadBox(uint32_t to, const TensorMap& map, int x, int y, int plane, int tile,
             uint32_t barrier) {
  const uint32_t bytes = map.box[0] * map.box[1] * map.box[2] * 2;
  g_block->CheckShared(to, bytes, 128);
  g_block->Give({.kind = Order::kLoadBox,
                 .map = &map,
                 .at = {x, y, plane, tile},
                 .shared = to,
                 .bytes = bytes,
                 .barrier = barrier});
}
void StoreBox(const TensorMap& map, int x, int y, int plane, int tile, uint32_t from) {
  g_block->CheckShared(from, map.box[0] * map.box[1] * map.box[2] * 2, 128);
  g_block->Give({.kind = Order::kStoreBox, .map = &map, .at = {x, y, plane, tile}, .shared = from});
}
void CopyBulk(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
  g_block->CheckShared(to, bytes, 16);
  g_block->Give(
      {.kind = Order::kCopyBulk, .shared = to, .from = from, .bytes = bytes, .barrier = barrier});
}
void WaitStoresRead() {
  if (!Lacks(Fault::kWaitStoresRead)) g_block->AwaitStores();
}
void WaitStores() {
  if (!Lacks(Fault::kWaitStores)) g_block->AwaitStores();
}
void FenceForProducts() {
  if (!Lacks(Fault::kFenceForProducts)) g_block->Fence();
}
void BeginProducts() {}
void MultiplyColumns(float* d, int columns, uint64_t a, uint64_t b, bool add) {
  g_block->AddProducts(d, columns, a, b, add);
}
void CommitProducts() { g_block->CommitProducts(); }
void WaitPendingProducts(int pending) {
  if (!Lacks(Fault::kWaitProducts, pending)) g_block->WaitProducts(pending);
}

}  // namespace cuda
}  // namespace upscaled
