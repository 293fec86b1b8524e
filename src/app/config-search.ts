import { z } from 'zod'
import { flag, group, hasUsablePort, portRule, rule, secret, wholeNumber } from './config-parts.ts'

const urlRule = rule('an http:// or https:// URL')

export const searchSection = group(
  {
    local_model: flag(
      true,
      'Whether to find tools, agents and workflows by meaning with the model that comes with the program, if no service is configured. Its thread takes about 100 MB while it is used.',
    ),
    embeddings: group(
      {
        url: z
          .string(urlRule)
          .regex(/^https?:\/\/./, urlRule)
          .refine(hasUsablePort, portRule)
          .optional()
          .describe(
            "Base URL of a service that speaks OpenAI's embeddings, such as `http://127.0.0.1:11434/v1`. It replaces the model that comes with the program.",
          ),
        model: z
          .string(rule('the name of a model'))
          .min(1, rule('the name of a model'))
          .default('all-minilm')
          .describe('Name of the model at the service.'),
        api_key: z
          .string(rule('a key, or env:NAME'))
          .min(1, rule('a key, or env:NAME'))
          .optional()
          .meta(secret)
          .describe('Key for the service, sent as a bearer token. Accepts `env:NAME`.'),
        timeout_ms: wholeNumber(10_000, 100, 600_000, 'Time for one answer of the service.'),
      },
      'Service that turns text into vectors.',
    ),
  },
  'Search over tools, agents and workflows.',
)
