import { z } from 'zod'
import { bodySettings } from '../domains/interactions/rules.ts'
import { group, rule, wholeNumber } from './config-parts.ts'

export const interactionsSection = group(
  {
    bodies: z
      .enum(bodySettings, rule(`one of ${bodySettings.join(', ')}`))
      .default('none')
      .describe(
        'What is kept of the texts of requests and answers: `none`, `redacted` (without secrets of this configuration and what looks like a credential), or `full`.',
      ),
    retention_days: wholeNumber(90, 1, 36_500, 'Days after which an interaction is removed. Totals of tokens stay.'),
    body_retention_days: wholeNumber(7, 1, 36_500, 'Days after which its bodies are removed.'),
  },
  'Requests to language models, as `interaction_list` shows them.',
)
