import type { IncomingMessage } from 'node:http'
import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { readBytes } from '../read-json-body.ts'

/** The fields of a form of our pages; a repeated field is refused. */
export async function readForm(req: IncomingMessage): Promise<ReadonlyMap<string, string>> {
  const type = req.headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase()
  if (type !== 'application/x-www-form-urlencoded') {
    throw new AppError('ERR_MEDIA_TYPE_UNSUPPORTED', 'Content-Type: must be application/x-www-form-urlencoded.')
  }
  const bytes = await readBytes(req, limits.formBytesMax)
  const fields = new Map<string, string>()
  for (const [name, value] of new URLSearchParams(bytes.toString('utf8'))) {
    if (fields.has(name))
      throw new AppError('ERR_INVALID_INPUT', 'The form has the same field twice. Send each field once.', {
        field: name.slice(0, 64),
      })
    fields.set(name, value)
  }
  return fields
}
