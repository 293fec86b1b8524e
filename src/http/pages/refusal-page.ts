import type { IncomingMessage, ServerResponse } from 'node:http'
import type { RequestHead } from '../exchange/request-head.ts'
import { sendError } from '../send.ts'
import { type HttpError, type HttpErrorDeps, toHttpError } from '../to-http-error.ts'
import { html } from './html.ts'
import { noticePage, type Page, sendPage } from './page.ts'

/** Whether a person would read the answer in a browser. A program that accepts JSON too gets JSON. */
export const isForBrowser = ({ headers: { accept = '' } }: Pick<RequestHead, 'headers'>): boolean =>
  accept.includes('text/html') && !accept.includes('json')

/** A refusal as JSON, or as a page for a person who opened the address in a browser. */
export function sendRefusal(req: IncomingMessage, res: ServerResponse, error: unknown, deps: HttpErrorDeps): void {
  const refusal = toHttpError(error, deps)
  const isRead = req.method === 'GET' || req.method === 'HEAD'
  if (!isRead || !isForBrowser(req) || res.headersSent || res.destroyed) sendError(req, res, refusal)
  else sendPage(res, refusal.status, refusalPage(refusal), { ...refusal.headers, vary: 'Accept, Origin' })
}

function refusalPage({ status, json }: HttpError): Page {
  const { message } = (JSON.parse(json) as { error: { message: string } }).error
  if (status !== 404) return noticePage('This did not work', message)
  return {
    title: 'Nothing is here',
    body: html`<p>${message}</p><p><a href="/">The addresses of this server</a></p>`,
  }
}
