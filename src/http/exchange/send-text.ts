import type { Answer } from './answer.ts'

export type Headers = Readonly<Record<string, string>>

/** Common headers of every answer: its type, no caching, no content sniffing. */
export function headersFor(type: string, bytes: number, more?: Headers): string[] {
  const headers = [
    'content-type',
    type,
    'content-length',
    String(bytes),
    'cache-control',
    'no-store',
    'x-content-type-options',
    'nosniff',
  ]
  if (more !== undefined) for (const name in more) headers.push(name, more[name]!)
  return headers
}

export function sendText(res: Answer, status: number, type: string, text: string, more?: Headers): void {
  if (res.destroyed || res.headersSent) return
  const bytes = Buffer.byteLength(text)
  res.writeHead(status, headersFor(type, bytes, more))
  // As many bytes as characters is ASCII, which needs no conversion.
  res.end(text, bytes === text.length ? 'latin1' : 'utf8')
}

export const sendJson = (res: Answer, status: number, json: string, more?: Headers): void =>
  sendText(res, status, 'application/json', json, more)
