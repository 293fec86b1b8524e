import { z } from 'zod'
import { sharingScopes } from '../../contract/sharing.ts'
import { fields } from '../params.ts'

const text = (max: number, description: string) => z.string().max(max).describe(description)
const optionalText = (max: number, description: string) =>
  z.string().max(max).nullable().optional().describe(description)

export const serverId = z
  .string()
  .min(1)
  .max(200)
  .describe('The catalog ID of the MCP server, or its name. Use get_mcp_servers to look it up.')

/** The descriptive fields of a server, and who can see it. */
export const aboutFields = {
  description: optionalText(4_000, 'Description of the MCP server.'),
  icon: optionalText(64, 'Emoji icon for the MCP server.'),
  docsUrl: optionalText(2_000, 'Documentation URL.'),
  repository: optionalText(2_000, 'Source code repository URL.'),
  version: optionalText(200, 'Version string.'),
  instructions: optionalText(20_000, 'Setup or usage instructions.'),
  scope: z.enum(sharingScopes).optional().describe('Visibility scope; "org" is for administrators.'),
  labels: z
    .array(z.strictObject({ key: text(128, 'Label key.'), value: text(256, 'Label value.') }))
    .max(64)
    .optional()
    .describe('Key-value labels for organization/categorization.'),
  teams: z
    .array(z.string().min(1).max(200))
    .max(64)
    .optional()
    .describe('Team IDs or names for team-scoped access control.'),
}

/** The output of the tools that change a server. */
export const changedServer = z.strictObject({
  id: z.string(),
  name: z.string(),
  scope: z.enum(sharingScopes),
  teams: z.array(z.string()),
  serverType: z.enum(['local', 'remote', 'builtin']),
  toolPrefix: z.string().describe('What the names of its tools begin with.'),
})

export const deploymentFields = {
  id: z.string().describe('The deployment ID.'),
  catalogId: z.string(),
  name: z.string().describe('The name of the MCP server.'),
  serverType: z.enum(['local', 'remote', 'builtin']),
  scope: z.enum(sharingScopes),
  teamId: z.string().nullable(),
  author: z.string().describe('Who deployed it.'),
  status: z.enum(['pending', 'discovering-tools', 'success', 'error']),
  error: z.string().nullable().describe('What is wrong with it.'),
  needsAuthorization: z
    .boolean()
    .describe('A person has to sign in at its authorization server: authorize_mcp_server.'),
  authorizeUrl: z
    .string()
    .nullable()
    .describe('Page where a person who is signed in here does that; null if there is nothing to do, or no such page.'),
  state: z.enum(['stopped', 'starting', 'running', 'backing-off']).describe('Stopped servers start on first use.'),
  starts: z.int().describe('How often this process started it.'),
  createdAt: z.string(),
}

export const deployValues = z
  .record(z.string().min(1).max(128), z.union([z.string().max(65_536), z.number().min(-1e15).max(1e15), z.boolean()]))
  .optional()
  .describe('Values for the fields that the server asks for. For secrets give references from secret_link_create.')

export const deployOutput = z.strictObject({
  ...deploymentFields,
  isNew: z.boolean(),
  toolCount: z.int(),
  link: z
    .strictObject({ url: z.string(), expires_at: fields.time })
    .optional()
    .describe('Where a person enters what is missing.'),
  message: z.string(),
})
