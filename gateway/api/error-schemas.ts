import * as z from 'zod';

/** The schemas of error-bodies.ts. */

/** The error object that OpenAI's clients parse. It is also sent in a stream that has begun. */
export const openAiErrorSchema = z
  .object({
    error: z.object({
      message: z.string(),
      type: z.string(),
      param: z.string().nullable(),
      code: z.string().nullable(),
    }),
  })
  .meta({ title: 'OpenAiError' });

const fieldError = z.object({
  field: z.string(),
  constraint: z.string(),
  message: z.string(),
  value: z.string().optional(),
});

/** The forms of a native error. */
export const nativeErrorSchema = z
  .union([
    z.object({ errors: z.array(fieldError) }),
    z.object({ code: z.string(), message: z.string(), retriable: z.boolean() }),
  ])
  .meta({ title: 'NativeError' });
