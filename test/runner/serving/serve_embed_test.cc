#include <algorithm>

#include "test/fixtures/serving_runner.h"

namespace runnel {
namespace {

std::vector<float> values_of(const wire::Embedding& embedding) {
  return {embedding.values().begin(), embedding.values().end()};
}

std::vector<float> state_after(const std::vector<uint32_t>& ids) {
  return fake_state_of(fake_hash(ids));
}

}  // namespace

TEST_CASE("serve: an Embed is answered by its vector alone, beside requests that go on") {
  ServingRunner runner;
  Listener listener(runner.gateway);
  const Sequence beside = seeded(1, 30, 60);
  const std::vector<uint32_t> ids = seeded(2, 200, 1).token_ids;
  runner.gateway.send(generate_of(beside));
  listener.until_token(1, 3);
  runner.gateway.send(embed_of(2, ids, wire::POOLING_LAST));
  runner.gateway.send(embed_of(3, ids, wire::POOLING_CLS));
  const Answer& last = listener.until_ended(2);
  REQUIRE(last.embedding);
  CHECK(values_of(*last.embedding) == state_after(ids));
  CHECK(last.token_ids.empty());
  const Answer& first = listener.until_ended(3);
  REQUIRE(first.embedding);
  CHECK(values_of(*first.embedding) == state_after({ids[0]}));
  CHECK(listener.until_ended(1).token_ids == fake_answer(beside, kContext));
}

TEST_CASE("serve: a vector comes before the Step that made it, with what was found in the cache") {
  ServingRunner runner;
  const std::vector<uint32_t> ids = seeded(1, 60, 1).token_ids;
  for (const uint32_t id : {1u, 2u}) {
    runner.gateway.send(embed_of(id, ids, wire::POOLING_LAST));
    const std::optional<wire::FromRunner> vector = runner.gateway.next();
    REQUIRE(vector);
    REQUIRE(vector->has_embedding());
    CHECK(values_of(vector->embedding()) == state_after(ids));
    CHECK(vector->embedding().num_cached_tokens() == (id == 1 ? 0 : 48));
    const std::optional<wire::FromRunner> step = runner.gateway.next();
    REQUIRE(step);
    REQUIRE(step->has_step());
    CHECK(step->step().step() == id);
    CHECK(step->step().outputs().empty());
    CHECK(step->step().first_outputs().empty());
  }
}

TEST_CASE("serve: an Embed is refused, cancelled and drained as a Generate is") {
  ServingRunner runner;
  Listener listener(runner.gateway);
  runner.gateway.send(embed_of(1, {}, wire::POOLING_MEAN));
  CHECK(listener.until_ended(1).error->code() == wire::ERROR_CODE_INVALID_REQUEST);
  runner.gateway.send(embed_of(2, {5}, wire::POOLING_UNSPECIFIED));
  CHECK(listener.until_ended(2).error->message() == "pooling must be last, mean, cls or rank.");
  // 18 requests at once, and a cancel of the last one.
  std::string commands;
  for (uint32_t id = 3; id <= 20; ++id)
    commands += GatewayEnd::frame_of(embed_of(id, seeded(id, 3000, 1).token_ids, wire::POOLING_MEAN));
  runner.gateway.send_bytes(commands + GatewayEnd::frame_of(cancel_of(20)));
  CHECK(listener.until_ended(20).error->code() == wire::ERROR_CODE_CANCELLED);
  runner.gateway.send(drain());
  runner.gateway.send(embed_of(21, {5}, wire::POOLING_MEAN));
  CHECK(listener.until_ended(21).error->code() == wire::ERROR_CODE_DRAINING);
  for (uint32_t id = 3; id <= 19; ++id) CHECK(listener.until_ended(id).embedding);
  CHECK(runner.end().ok());
}

TEST_CASE("serve: an id that is in use ends the connection, whichever kind of request has it") {
  ServingRunner runner;
  runner.gateway.send_bytes(GatewayEnd::frame_of(generate_of(seeded(1, 10, 3000))) +
                            GatewayEnd::frame_of(embed_of(1, {5}, wire::POOLING_LAST)));
  const Result<void> end = runner.end();
  REQUIRE(!end.ok());
  CHECK(end.error().exit_code == ExitCode::kProtocol);
  CHECK(end.error().message == "An Embed has request_id 1, which is in use.");
}

}  // namespace runnel
