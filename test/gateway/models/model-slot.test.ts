import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ModelSlot } from '../../../gateway/models/model-slot.ts';
import { byteModel } from '../../fixtures/byte-model.ts';
import { settled } from '../../fixtures/scripted-service.ts';

const test = suite('model slot');

test('a model closed while it is read is released, and can be read again', async () => {
  let numOpen = 0;
  const close = (): void => {
    numOpen -= 1;
  };
  const slot = new ModelSlot('/a.gguf', {
    identity: async () => 'the one there is',
    load: async () => {
      await settled();
      numOpen += 1;
      return { ...byteModel, chatTemplate: undefined, tokenizer: { ...byteModel.tokenizer, close } };
    },
  });
  const reading = slot.refresh();
  slot.close();
  await reading;
  assert.equal([slot.current, numOpen], [undefined, 0]);
  await slot.refresh();
  assert.equal([slot.current?.id, numOpen], ['bytes', 1]);
  slot.close();
  assert.is(numOpen, 0);
});

test.run();
