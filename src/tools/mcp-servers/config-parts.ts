import { z } from 'zod'
import { subjectTokenTypes } from '../../contract/upstream-tools.ts'

const text = (max: number, description: string) => z.string().max(max).describe(description)

const defaultValue = z
  .union([z.string().max(65_536), z.number(), z.boolean(), z.array(z.string().max(65_536)).max(100)])
  .optional()

export const authField = z.strictObject({
  name: z.string().min(1).max(128).describe('Auth field name.'),
  label: text(200, 'Human-readable auth field label.'),
  type: z.enum(['header', 'query', 'cookie']).describe('Where to send this auth field.'),
  secret: z.boolean().describe('Whether this field contains secret data.'),
})

export const variable = z.strictObject({
  key: z
    .string()
    .regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/)
    .max(128)
    .describe('Environment variable name.'),
  type: z.enum(['plain_text', 'secret', 'boolean', 'number']).describe('Environment variable value type.'),
  value: text(65_536, 'Literal value, or a reference from secret_link_create. A secret is encrypted.').optional(),
  promptOnInstallation: z.boolean().describe('Whether to prompt for this value during installation.'),
  required: z.boolean().optional().describe('Whether the value is required.'),
  description: text(1_000, 'Description shown to users.').optional(),
  default: defaultValue.describe('Default value: text, never a reference.'),
  mounted: z.boolean().optional().describe('For secret values, mount as the file /secrets/KEY instead of an env var.'),
})

export const userField = z.strictObject({
  type: z.enum(['string', 'number', 'boolean', 'directory', 'file']),
  title: text(200, 'Label shown to users.').optional(),
  description: text(1_000, 'Description shown to users.').optional(),
  required: z.boolean().optional(),
  default: defaultValue.describe('Value where none is entered: text, never a reference.'),
  multiple: z.boolean().optional(),
  sensitive: z.boolean().optional().describe('The value is encrypted, and nobody sees it.'),
  min: z.number().min(-1e15).max(1e15).optional(),
  max: z.number().min(-1e15).max(1e15).optional(),
  promptOnInstallation: z.boolean().optional(),
  headerName: z.string().min(1).max(128).optional().describe('Header of every request that has the value.'),
  valuePrefix: text(128, 'What comes before the value in that header, such as "Bearer ".').optional(),
})

export const oauth = z
  .strictObject({
    name: text(200, 'Name of the provider.').optional(),
    server_url: text(2_000, 'Address of the authorization server, where it differs.').optional(),
    client_id: text(500, 'Client id; without one the client registers itself.').optional(),
    client_secret: text(4_000, 'Client secret, or a reference. It is encrypted.').optional(),
    redirect_uris: z.array(z.string().max(2_000)).max(16).optional(),
    scopes: z.array(z.string().max(200)).max(64).optional().describe('Scopes to ask for.'),
    authorization_endpoint: text(2_000, 'Where metadata does not tell.').optional(),
    token_endpoint: text(2_000, 'Where metadata does not tell.').optional(),
    well_known_url: text(2_000, 'Address of the metadata, where it is not the usual one.').optional(),
    supports_resource_metadata: z.boolean().optional(),
  })
  .optional()
  .describe('[Remote] OAuth configuration for the server.')

export const exchange = z
  .strictObject({
    token_endpoint: text(2_000, 'Token endpoint of the identity provider.').min(1),
    client_id: text(500, 'Client id at the identity provider.').optional(),
    client_secret: text(4_000, 'Client secret, or a reference. It is encrypted.').optional(),
    resource: text(2_000, 'Resource for which the token is asked.').optional(),
    audience: text(2_000, 'Audience for which the token is asked.').optional(),
    scopes: z.array(z.string().max(200)).max(64).optional().describe('Scopes to ask for.'),
    requested_token_type: text(200, 'Token type to ask for; an access token by default.').optional(),
    subject_token_type: z
      .enum(subjectTokenTypes)
      .optional()
      .describe(
        'Which token of the caller is exchanged: its access token (default), its ID token, or the access token as a JWT.',
      ),
    injection: z
      .enum(['bearer', 'raw', 'header'])
      .optional()
      .describe('How the token is sent: as bearer token (default), raw in Authorization, or in a header of its own.'),
    header_name: z.string().min(1).max(128).optional().describe('The header, with injection "header".'),
  })
  .optional()
  .describe('[Remote] Where a token of the caller is exchanged for one of the server (RFC 8693).')

export const mount = z.strictObject({
  host_path: z.string().min(1).max(1_024).describe('Folder of the host, in one that workspaces.mounts allows.'),
  path: z.string().min(1).max(1_024).describe('Where the server sees it.'),
  mode: z.enum(['ro', 'rw']).optional().describe('"rw" to write in it as well.'),
})
