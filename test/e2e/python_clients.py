"""What Python clients do with a running server: python_clients.py CLIENT URL. Prints how many things it has seen; fails at the first
that is not as it should be. Started by python-clients.test.ts."""

import json
import sys

MODEL = "smollm2"
ASKED = [{"role": "user", "content": "Tell me about lighthouses."}]
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "now", "description": "The time", "parameters": {"type": "object", "properties": {}}}}


def refused(error, call):
    """What the call raises, which must be of this class."""
    try:
        call()
    except error as raised:
        return raised
    raise AssertionError(f"nothing was refused, and {error.__name__} was expected")


def valid(text):
    person = json.loads(text)
    return isinstance(person["name"], str) and 0 <= person["age"] <= 99


def openai(url):
    from openai import BadRequestError, NotFoundError, OpenAI

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
    yield MODEL in [model.id for model in client.models.list()]
    yield refused(NotFoundError, lambda: client.chat.completions.create(**{**options, "model": "absent"})).code == "model_not_found"
    # The template of this model knows none.
    yield "tools" in str(refused(BadRequestError, lambda: client.chat.completions.create(**options, tools=[TOOL])))


def anthropic(url):
    from anthropic import Anthropic, NotFoundError

    client = Anthropic(base_url=url, api_key="none", max_retries=0)
    options = {"model": MODEL, "messages": ASKED, "max_tokens": 12, "extra_body": {"temperature": 0}}
    whole = client.messages.create(**options)
    with client.messages.stream(**options) as stream:
        text = "".join(stream.text_stream)
        yield text == whole.content[0].text != ""
        yield stream.get_final_message().usage.output_tokens == whole.usage.output_tokens == 12
    # As Anthropic counts: what was found in the cache is told apart.
    num_read = whole.usage.input_tokens + (whole.usage.cache_read_input_tokens or 0)
    yield client.messages.count_tokens(model=MODEL, messages=ASKED).input_tokens == num_read
    yield refused(NotFoundError, lambda: client.messages.create(**{**options, "model": "absent"})).status_code == 404


def ollama(url):
    from ollama import Client, ResponseError

    client = Client(host=url)
    options = {"temperature": 0, "num_predict": 12}
    whole = client.chat(model=MODEL, messages=ASKED, options=options).message.content
    parts = list(client.chat(model=MODEL, messages=ASKED, options=options, stream=True))
    yield "".join(part.message.content for part in parts) == whole != ""
    yield parts[-1].done and parts[-1].eval_count == 12
    yield client.generate(model=MODEL, prompt="Once", options=options).response != ""
    yield any(model.model.startswith(MODEL) for model in client.list().models)
    yield refused(ResponseError, lambda: client.chat(model="absent", messages=ASKED)).status_code == 404


def langchain(url):
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model=MODEL, base_url=f"{url}/v1", api_key="none", temperature=0, max_tokens=12, max_retries=0)
    question = ASKED[0]["content"]
    whole = model.invoke(question).content
    yield "".join(chunk.content for chunk in model.stream(question)) == whole != ""
    yield len(model.batch([question, "Hello"])) == 2
    long = ChatOpenAI(model=MODEL, base_url=f"{url}/v1", api_key="none", temperature=0, max_tokens=200, max_retries=0)
    person = {"title": "person", "description": "A person", **SCHEMA}
    yield 0 <= long.with_structured_output(person, method="json_schema", strict=True).invoke("Who are you?")["age"] <= 99


if __name__ == "__main__":
    client, url = sys.argv[1:]
    seen = 0
    for is_so in {"openai": openai, "anthropic": anthropic, "ollama": ollama, "langchain": langchain}[client](url):
        seen += 1
        if not is_so:
            sys.exit(f"{client}: number {seen} is not so")
    print(f"{client}: {seen} things of Python clients")
