"""OpenAI's client."""

from openai import BadRequestError, NotFoundError, OpenAI

from shared import ASKED, MODEL, SCHEMA, TOOL, refused, valid


def things(url):
    client = OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
    options = {"model": MODEL, "messages": ASKED, "temperature": 0, "max_tokens": 12}
    whole = client.chat.completions.create(**options).choices[0].message.content
    chunks = list(client.chat.completions.create(**options, stream=True, stream_options={"include_usage": True}))
    yield "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == whole != ""
    yield chunks[-1].usage.completion_tokens == 12
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA, "strict": True}}
    options = {**options, "max_tokens": 200}
    yield valid(client.chat.completions.create(**options, response_format=form).choices[0].message.content)
    yield client.responses.create(model=MODEL, input="Hello", max_output_tokens=8, temperature=0).output_text != ""
    # Three turns, each by the id of the one before.
    said, last = [], None
    for turn in ["What is the capital of France?", "Say the name of that city again.", "And of Italy?"]:
        options_of = {"model": MODEL, "temperature": 0, "max_output_tokens": 200}
        said += [{"role": "user", "content": turn}]
        last = client.responses.create(**options_of, input=turn, previous_response_id=last and last.id)
        yield last.output_text == client.responses.create(**options_of, input=said, store=False).output_text != ""
        said += [{"role": "assistant", "content": last.output_text}]
    yield [item.content[0].text for item in client.responses.input_items.list(last.id, order="asc")] == [
        item["content"] for item in said[:-1]
    ]
    client.responses.delete(last.id)
    refused_turn = refused(
        BadRequestError, lambda: client.responses.create(**options_of, input="So?", previous_response_id=last.id)
    )
    yield refused_turn.code == "previous_response_not_found"
    yield MODEL in [model.id for model in client.models.list()]
    yield refused(NotFoundError, lambda: client.chat.completions.create(**{**options, "model": "absent"})).code == "model_not_found"
    # The template of this model knows no tools: the gateway describes them.
    called = client.chat.completions.create(**options, tools=[TOOL], tool_choice="required").choices[0].message.tool_calls
    yield {call.function.name for call in called} == {"now"}
