import { z } from 'zod'
import { bodySettings } from '../domains/interactions/rules.ts'
import { group, hasUsablePort, portRule, rule, secret, wholeNumber } from './config-parts.ts'

const urlRule = rule('an http:// or https:// URL without user name, query and fragment')
const headersRule = rule('an object of HTTP header names, each once, whose values are strings or env:NAME')

export const interactionsSection = group(
  {
    bodies: z
      .enum(bodySettings, rule(`one of ${bodySettings.join(', ')}`))
      .default('none')
      .describe(
        'How much of the text of requests and answers is stored: `none`, `redacted` (without the secrets of this configuration and without anything that looks like a credential), or `full`.',
      ),
    retention_days: wholeNumber(90, 1, 36_500, 'Days after which an interaction is removed. Token totals stay.'),
    body_retention_days: wholeNumber(7, 1, 36_500, 'Days after which the stored texts of an interaction are removed.'),
    otlp: group(
      {
        endpoint: z
          .string(urlRule)
          .refine(isBase, urlRule)
          .refine(hasUsablePort, portRule)
          .optional()
          .describe(
            'Base URL of an OpenTelemetry collector, such as `http://127.0.0.1:4318`; `/v1/traces` is added. Every model request of every organisation is sent there as a span, without its text.',
          ),
        headers: z
          .record(z.string(), z.string(headersRule), headersRule)
          .refine(areHeaders, headersRule)
          .optional()
          .meta(secret)
          .describe('HTTP headers for the collector, by name. A value accepts `env:NAME`.'),
      },
      'Export of interactions by OTLP over HTTP, with JSON.',
    ),
  },
  'Requests to language models, as `interaction_list` shows them.',
)

function areHeaders(headers: Readonly<Record<string, string>>): boolean {
  try {
    return [...new Headers(headers).keys()].length === Object.keys(headers).length
  } catch {
    return false
  }
}

function isBase(text: string): boolean {
  const url = URL.parse(text)
  if (url === null || !/^https?:$/.test(url.protocol)) return false
  return [url.username, url.password, url.search, url.hash].every((part) => part === '')
}
