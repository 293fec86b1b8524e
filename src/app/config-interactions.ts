import { z } from 'zod'
import { bodySettings } from '../domains/interactions/rules.ts'
import { group, rule, secret, wholeNumber } from './config-parts.ts'

const urlRule = rule('an http:// or https:// URL without user name, query and fragment')
export const otlpHeadersRule = 'must be name=value, several with commas between them; in values, a comma is written %2C'

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
    otlp: group(
      {
        endpoint: z
          .string(urlRule)
          .refine(isBase, urlRule)
          .optional()
          .describe(
            'Base URL of an OpenTelemetry collector, such as `http://127.0.0.1:4318`; `/v1/traces` is added. Every request to a model of every organisation is sent there as a span, without texts.',
          ),
        headers: z
          .string(rule('headers, or env:NAME'))
          .min(1, rule('headers, or env:NAME'))
          .optional()
          .meta(secret)
          .describe(
            'Headers for the collector, as `name=value,name=value`; in values, a comma is written `%2C`. Accepts `env:NAME`.',
          ),
      },
      'Export of interactions by OTLP over HTTP, with JSON.',
    ),
  },
  'Requests to language models, as `interaction_list` shows them.',
)

/** As OpenTelemetry writes headers in a setting; undefined for a text that breaks the rule. */
export function otlpHeadersOf(text: string): Readonly<Record<string, string>> | undefined {
  const headers = new Headers()
  try {
    for (const pair of text.split(',')) {
      const at = pair.indexOf('=')
      if (at < 1) return undefined
      headers.append(pair.slice(0, at).trim(), decodeURIComponent(pair.slice(at + 1).trim()))
    }
  } catch {
    return undefined
  }
  return Object.fromEntries(headers)
}

function isBase(text: string): boolean {
  const url = URL.parse(text)
  if (url === null || !/^https?:$/.test(url.protocol)) return false
  return [url.username, url.password, url.search, url.hash].every((part) => part === '')
}
