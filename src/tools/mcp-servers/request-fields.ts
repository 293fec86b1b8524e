import { z } from 'zod'
import { fields } from '../params.ts'

export const requestId = z.string().min(1).max(200).describe('From list_mcp_server_installation_requests.')

export const requestStatus = z.enum(['pending', 'approved', 'declined'])

export const requestView = z.strictObject({
  id: z.string(),
  author: z.string().describe('Who asked.'),
  name: z.string(),
  reason: z.string().nullable(),
  serverUrl: z.string().nullable(),
  repository: z.string().nullable(),
  catalogId: z.string().nullable(),
  status: requestStatus,
  notes: z.array(z.strictObject({ author: z.string(), text: z.string(), at: fields.time })),
  decidedBy: z.string().nullable(),
  decidedAt: fields.time.nullable(),
  createdAt: fields.time,
})
