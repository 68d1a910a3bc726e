"""llm with its plugin for Ollama, which asks the server for its models, and what they can do."""

import os
import tempfile

from shared import MODEL, QUESTION, SCHEMA, valid


def things(url):
    os.environ["OLLAMA_HOST"] = url
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LLM_USER_PATH"] = folder
        import llm

        model = llm.get_model(f"ollama/{MODEL}")
        yield model.model_id == f"ollama/{MODEL}:latest" and model.supports_schema
        options = {"temperature": 0, "num_predict": 12, "seed": 1}
        whole = model.prompt(QUESTION, stream=False, **options).text()
        yield "".join(model.prompt(QUESTION, **options)) == whole != ""
        conversation = model.conversation()
        conversation.prompt(QUESTION, stream=False, **options).text()
        yield conversation.prompt("And then?", stream=False, **options).text() != ""
        yield valid(model.prompt("Who are you?", schema=SCHEMA, stream=False, temperature=0, num_predict=200).text())
