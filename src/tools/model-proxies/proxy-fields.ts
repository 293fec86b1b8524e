import { z } from 'zod'
import { profileFields } from '../profile-params.ts'

const { subAgentIds: _, ...shared } = profileFields.agent.shape

/** What callers are told of a model proxy. */
export const proxyFields = {
  proxy: z.strictObject({
    ...shared,
    slug: z.string().describe('The name in its address; it stays when the proxy is renamed.'),
    path: z
      .string()
      .describe('Where programs reach it, on the address of this server, for each provider. Its id works there too.'),
  }),
} as const
