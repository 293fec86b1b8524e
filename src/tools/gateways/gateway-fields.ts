import { z } from 'zod'
import { profileFields } from '../profile-params.ts'

const { subAgentIds: _, ...shared } = profileFields.agent.shape

/** A gateway as callers see it. */
export const gatewayFields = {
  gateway: z.strictObject({
    ...shared,
    slug: z.string().describe('The name in its address; it stays when the gateway is renamed.'),
    path: z.string().describe('Where MCP clients reach it, on the address of this server. Its id works there too.'),
  }),
} as const
