import type { ServerResponse } from 'node:http'
import { sha256Bytes } from '../../kernel/hash.ts'
import { sendText } from '../exchange/send-text.ts'
import type { Exchange } from '../route-table.ts'
import type { Html } from './html.ts'
import { html } from './html.ts'
import { PASSKEY_SCRIPT } from './passkey-script.ts'

/**
 * A small page for a person: one style sheet, nothing from other sites, and no script except the one for passkeys. Readable on a
 * phone.
 */
export type Page = Readonly<{
  title: string
  body: Html
  /** Where a form of the page may lead besides this server: an origin or a scheme of a client. */
  formTargets?: readonly string[]
  hasPasskeys?: boolean
}>

const STYLE = `
:root{color-scheme:light dark;--line:#8888;--accent:#2457c5;--bad:#b3261e}
@media (prefers-color-scheme:dark){:root{--accent:#8fb0ff;--bad:#ff8a80}}
*{box-sizing:border-box}
body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:0 auto;padding:2rem 1rem;overflow-wrap:anywhere}
h1{font-size:1.4rem;line-height:1.25;margin:0 0 1rem}
label,.field{display:block;margin:1rem 0 0}
label{font-weight:600}
.hint{display:block;font-weight:400;opacity:.8;font-size:.9rem}
input,textarea,select{width:100%;font:inherit;padding:.6rem;margin-top:.25rem;border:1px solid var(--line);border-radius:.4rem;background:transparent;color:inherit}
button,.button{display:block;text-align:center;text-decoration:none;font:inherit;font-weight:600;width:100%;padding:.7rem;margin-top:1.5rem;border:0;border-radius:.4rem;background:var(--accent);color:Canvas}
.plain{background:transparent;color:inherit;border:1px solid var(--line);margin-top:.75rem}
.problem{border-left:.25rem solid var(--bad);padding:.25rem .75rem;margin:1rem 0}
footer{margin-top:2.5rem;opacity:.7;font-size:.85rem}
`
const styleHash = sha256Bytes(STYLE).toString('base64')
const scriptHash = sha256Bytes(PASSKEY_SCRIPT).toString('base64')

/** Forms go only to this server, and no other page may frame this one. */
const pagePolicy = ({ formTargets = [], hasPasskeys = false }: Page): string =>
  [
    "default-src 'none'",
    ...(hasPasskeys ? [`script-src 'sha256-${scriptHash}'`, "connect-src 'self'"] : []),
    `style-src 'sha256-${styleHash}'`,
    ["form-action 'self'", ...formTargets].join(' '),
    "frame-ancestors 'none'",
    "base-uri 'none'",
  ].join('; ')

const pageHeaders = {
  // Otherwise a form would have a null origin, and be refused.
  'referrer-policy': 'same-origin',
  'x-frame-options': 'DENY',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
} as const

export function sendPage(
  res: ServerResponse,
  status: number,
  sent: Page,
  headers: Readonly<Record<string, string>> = {},
): void {
  const { title, body, hasPasskeys } = sent
  const { text } = html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>${title} · Castellan</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="robots" content="noindex">
`
  const page = `${text}<style>${STYLE}</style></head>
<body><main>${html`<h1>${title}</h1>${body}`.text}</main><footer>Castellan</footer>${hasPasskeys === true ? `<script type="module">${PASSKEY_SCRIPT}</script>` : ''}</body></html>
`
  const policy = { 'content-security-policy': pagePolicy(sent) }
  sendText(res, status, 'text/html; charset=utf-8', page, { ...policy, ...pageHeaders, ...headers })
}

/** A message without any action. */
export const noticePage = (title: string, message: string): Page => ({ title, body: html`<p>${message}</p>` })

export const problemPart = (problem: string | undefined): Html =>
  problem === undefined ? html`` : html`<p class="problem" role="alert">${problem}</p>`

export const redirect = ({ res }: Pick<Exchange, 'res'>, location: string): void => {
  if (res.destroyed || res.headersSent) return
  res.writeHead(303, { location, 'cache-control': 'no-store', 'content-length': 0 }).end()
}
