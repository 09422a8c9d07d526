// NatsQueue's traces in JetStream, and its use of other workers' leftovers there.
#ifdef UPSCALED_NATS
#include "server/jobs/nats_queue.h"

#include <nats/nats.h>

#include <stdlib.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/jobs/job_queue.h"
#include "server/jobs/nats_streams.h"
#include "tests/server/jobs/broker_process.h"
#include "tests/support/certificates.h"

namespace upscaled::server {
namespace {

using client::TempFolder;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// One broker for all, and a queue for each.
class NatsQueueTest : public ::testing::Test {
 protected:
  static const NatsServer& Broker() {
    static const NatsServer server;
    return server;
  }

  void SetUp() override {
    if (!Broker().running()) GTEST_SKIP() << "needs nats-server";
    url_ = Broker().url("nats", ::testing::UnitTest::GetInstance()->current_test_info()->name());
    auto queue = NatsQueue::Open(url_);
    ASSERT_TRUE(queue.ok()) << queue.status();
    queue_ = *std::move(queue);
  }

  // The last message of the stream `stream` under `subject`; "" without one.
  std::string LastMessage(const std::string& stream, const std::string& subject) const {
    natsConnection* connection = nullptr;
    jsCtx* context = nullptr;
    natsMsg* message = nullptr;
    EXPECT_EQ(natsConnection_ConnectTo(&connection, Broker().url("nats", "").c_str()), NATS_OK);
    EXPECT_EQ(natsConnection_JetStream(&context, connection, nullptr), NATS_OK);
    js_GetLastMsg(&message, context, stream.c_str(), subject.c_str(), nullptr, nullptr);
    const std::string text = message == nullptr ? "" : natsMsg_GetData(message);
    natsMsg_Destroy(message);
    jsCtx_Destroy(context);
    natsConnection_Destroy(connection);
    return text;
  }

  std::string url_;
  std::unique_ptr<JobQueue> queue_;
};

TEST_F(NatsQueueTest, FailedJobsAreDeadLetters) {
  ASSERT_TRUE(
      queue_->Enqueue({{{.id = "good", .task = "a task"}, {.id = "bad", .task = "b"}}}).ok());
  ASSERT_TRUE(queue_->Complete(**queue_->Lease(absl::Minutes(1)), "").ok());
  ASSERT_TRUE(queue_->Fail(**queue_->Lease(absl::Minutes(1)), "no image").ok());
  const std::string prefix = "FailedJobsAreDeadLetters";
  EXPECT_THAT(LastMessage(prefix + "-dead", prefix + ".dead.bad"), HasSubstr("no image"));
  EXPECT_EQ(LastMessage(prefix + "-dead", prefix + ".dead.good"), "");
  EXPECT_EQ(LastMessage(prefix + "-due", prefix + ".due.bad"), "");  // acknowledged
}

TEST_F(NatsQueueTest, AMessageWithoutARecordIsAJob) {
  const auto streams = NatsStreams::Open(*ParseBrokerUrl(url_, "nats", 0), IfAbsent::kMake);
  ASSERT_TRUE((*streams)->AddWork("a", "a task", "").ok());  // whose submitter then died
  const auto job = queue_->Lease(absl::Minutes(1));
  ASSERT_TRUE(job.ok() && job->has_value()) << job.status();
  EXPECT_EQ((*job)->task, "a task");
  ASSERT_TRUE(queue_->Complete(**job, "done").ok());
  EXPECT_EQ(queue_->List({})->at(0).report, "done");
}

// Writes the message of a job as NatsQueue does, and the record never: a worker was faster, or the
// submitter died.
TEST_F(NatsQueueTest, AWorkerThatIsFasterThanTheRecordKnowsTheLabels) {
  const JobLabels labels{.tenant = "ada", .batch = "b", .reference = "line 1\r\nline 2: \"ü\""};
  ASSERT_TRUE(queue_->Enqueue({{{.id = "a", .task = "a task", .labels = labels}}}).ok());
  const auto streams = NatsStreams::Open(*ParseBrokerUrl(url_, "nats", 0), IfAbsent::kMake);
  ASSERT_TRUE((*streams)->Remove("a").ok());
  const auto job = queue_->Lease(absl::Minutes(1));
  ASSERT_TRUE(job.ok() && job->has_value()) << job.status();
  ASSERT_TRUE(queue_->Enqueue({{{.id = "a", .task = "a task", .labels = labels}}}).ok());
  const auto found = queue_->List({.id = "a", .tenant = "ada", .batch = "b"});
  ASSERT_TRUE(found.ok() && found->size() == 1) << found.status();
  EXPECT_EQ(found->front().labels, labels);
  EXPECT_EQ(found->front().state, JobState::kRunning);
}

TEST_F(NatsQueueTest, OfTwoWhoAskForOneJobOneIsToldThatThereIsNone) {
  const auto first = *NatsStreams::Open(*ParseBrokerUrl(url_, "nats", 0), IfAbsent::kMake);
  const auto second = *NatsStreams::Open(*ParseBrokerUrl(url_, "nats", 0), IfAbsent::kMake);
  ASSERT_TRUE(first->SetTerm(absl::Minutes(1)).ok());
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(first->AddWork(absl::StrCat(round), "a task", "").ok());
    absl::StatusOr<std::optional<NatsWork>> others;
    std::jthread other([&] { others = second->TakeWork(); });
    const auto own = first->TakeWork();
    other.join();
    ASSERT_TRUE(own.ok() && others.ok()) << own.status() << " " << others.status();
    EXPECT_NE(own->has_value(), others->has_value());
  }
}

TEST_F(NatsQueueTest, WhatTheBrokerLostIsAskedForAgain) {
  const auto streams = *NatsStreams::Open(*ParseBrokerUrl(url_, "nats", 0), IfAbsent::kMake);
  ASSERT_TRUE(streams->AddWork("a", "a task", "").ok());
  absl::StatusOr<std::optional<NatsWork>> work;
  std::jthread asks([&] { work = streams->TakeWork(); });  // of a consumer that is not there yet
  absl::SleepFor(absl::Milliseconds(200));
  ASSERT_TRUE(streams->SetTerm(absl::Minutes(1)).ok());
  asks.join();
  if (work.ok()) {
    ASSERT_TRUE(work->has_value());
    EXPECT_EQ((*work)->job, "a");
  } else {  // newer brokers say at once that nobody is there
    EXPECT_THAT(work.status().message(), AnyOf(HasSubstr("503"), HasSubstr("responders")));
  }
}

TEST_F(NatsQueueTest, ADamagedRecordIsTold) {
  const auto streams = NatsStreams::Open(*ParseBrokerUrl(url_, "nats", 0), IfAbsent::kMake);
  for (const char* text : {"", "[]", R"({"number": "1"})"}) {
    const auto record = (*streams)->Read("a");
    ASSERT_TRUE(*(*streams)->Write("a", text, record->revision)) << text;
    EXPECT_TRUE(absl::IsDataLoss(queue_->List({}).status())) << text;
    EXPECT_TRUE(absl::IsDataLoss(queue_->Cancel("a"))) << text;
  }
}

TEST_F(NatsQueueTest, ADamagedRecordHoldsNoOtherJobUp) {
  const auto streams = *NatsStreams::Open(*ParseBrokerUrl(url_, "nats", 0), IfAbsent::kMake);
  ASSERT_TRUE(queue_
                  ->Enqueue({{{.id = "old", .task = "o"},
                              {.id = "bad", .task = "b", .labels = {.tenant = "ada"}},
                              {.id = "good", .task = "g"}}})
                  .ok());
  ASSERT_TRUE(queue_->Complete(**queue_->Lease(absl::Minutes(1)), "").ok());
  const auto record = streams->Read("bad");
  ASSERT_TRUE(*streams->Write("bad", "{", record->revision));
  absl::SleepFor(absl::Milliseconds(5));
  const auto forgotten = queue_->ForgetEnded(absl::ZeroDuration(), 10);
  ASSERT_TRUE(forgotten.ok()) << forgotten.status();
  EXPECT_EQ(*forgotten, 1);
  EXPECT_THAT(*queue_->Count(), ElementsAre(Pair(JobState::kWaiting, 1)));

  const auto leased = queue_->Lease(absl::Minutes(1));
  ASSERT_TRUE(leased.ok() && leased->has_value()) << leased.status();
  EXPECT_EQ((*leased)->id, "good");
  const auto bad = queue_->List({.id = "bad"});
  ASSERT_TRUE(bad.ok() && bad->size() == 1) << bad.status();
  EXPECT_EQ(bad->front().state, JobState::kFailed);
  EXPECT_EQ(bad->front().task, "b");
  EXPECT_EQ(bad->front().labels.tenant, "ada");
  EXPECT_THAT(bad->front().report, HasSubstr("DATA_LOSS"));
  const std::string prefix = "ADamagedRecordHoldsNoOtherJobUp";
  EXPECT_THAT(LastMessage(prefix + "-dead", prefix + ".dead.bad"), HasSubstr("DATA_LOSS"));
  EXPECT_EQ(LastMessage(prefix + "-due", prefix + ".due.bad"), "");  // acknowledged
}

// A broker with TLS only, and an authority trusted as OpenSSL's are.
TEST(NatsTlsTest, TheBrokerIsKnownByItsCertificate) {
  TempFolder folder;
  const auto file = [&](const char* name) { return (folder.path() / name).string(); };
  if (!test::MakeCertificate(folder.path(), "own", "IP:127.0.0.1") ||
      !test::MakeCertificate(folder.path(), "other", "broker.example")) {
    GTEST_SKIP() << "needs openssl";
  }
  const auto broker = [&](const char* name) {
    return std::make_unique<NatsServer>(
        std::vector<std::string>{"--tls", "--tlscert", file(absl::StrCat(name, ".pem").c_str()),
                                 "--tlskey", file(absl::StrCat(name, ".key").c_str())});
  };
  const auto own = broker("own"), other = broker("other");
  if (!own->running() || !other->running()) GTEST_SKIP() << "needs nats-server";

  setenv("SSL_CERT_FILE", file("own.pem").c_str(), 1);
  {
    const auto queue = OpenQueue(own->url("tls", "jobs"));
    ASSERT_TRUE(queue.ok()) << queue.status();
    const NewJob job{.id = "a", .task = "task"};
    ASSERT_TRUE((*queue)->Enqueue({&job, 1}).ok());
    const auto leased = (*queue)->Lease(absl::Seconds(30));
    ASSERT_TRUE(leased.ok() && leased->has_value()) << leased.status();
    EXPECT_EQ((*leased)->id, "a");
  }
  setenv("SSL_CERT_FILE", file("other.pem").c_str(), 1);
  for (const char* const scheme : {"tls", "nats"}) {  // a broker may ask for TLS by itself
    EXPECT_FALSE(OpenQueue(own->url(scheme, "jobs")).ok()) << "of an unknown authority";
    EXPECT_FALSE(OpenQueue(other->url(scheme, "jobs")).ok()) << "of another host";
  }
  unsetenv("SSL_CERT_FILE");
}

TEST(NatsTlsTest, ABrokerWithoutTlsIsNotSpokenToInPlain) {
  const NatsServer plain;
  if (!plain.running()) GTEST_SKIP() << "needs nats-server";
  EXPECT_FALSE(OpenQueue(plain.url("tls", "jobs")).ok());
}

}  // namespace
}  // namespace upscaled::server
#endif
