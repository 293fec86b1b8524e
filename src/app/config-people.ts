import { z } from 'zod'
import { roles } from '../contract/principal.ts'
import { rule, secret, wholeNumber } from './config-parts.ts'

const idRule = rule('1 to 32 lower-case letters, digits or "-"')
const issuerRule = rule('the https:// URL of the provider, without query; http:// only for a loopback address')
const secretRule = rule('env:NAME; the configuration itself holds no secret')
const textRule = rule('text that is not empty')
const domainRule = rule('a list of domains such as example.com; there are no wildcards')
const listRule = rule('a list of at most 16 identity providers, each with an id of its own')
const endpointsRule = rule('a list of at most 16 https:// addresses; http:// only for a loopback address')
const scopesRule = rule('a list of at most 16 OAuth scopes such as offline_access')
const createRule = rule('a list with at least one domain where new_users is create: others could let anybody in')

const provider = z
  .strictObject(
    {
      id: z.string(idRule).regex(/^[a-z0-9][a-z0-9-]{0,31}$/, idRule),
      name: z.string(textRule).min(1, textRule).max(64, textRule),
      issuer: z.string(issuerRule).max(2_048, issuerRule).refine(isIssuer, issuerRule),
      client_id: z.string(textRule).min(1, textRule).max(512, textRule),
      client_secret: z
        .string(secretRule)
        .regex(/^env:[A-Za-z_][A-Za-z0-9_]*$/, secretRule)
        .optional(),
      tenant: z
        .string(rule('the name of an organisation'))
        .regex(/^[a-z0-9][a-z0-9._-]{0,63}$/, rule('the name of an organisation'))
        .default('local'),
      new_users: z.enum(['invited', 'create'], rule('one of invited, create')).default('invited'),
      default_role: z.enum(roles, rule(`one of ${roles.join(', ')}`)).default('member'),
      email_domains: z
        .array(z.string(domainRule).regex(/^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/, domainRule), domainRule)
        .max(100, domainRule)
        .default([]),
      assume_email_verified: z.boolean(rule('true or false')).default(false),
      scopes: z
        .array(z.string(scopesRule).regex(/^[\x21\x23-\x5b\x5d-\x7e]{1,128}$/, scopesRule), scopesRule)
        .max(16, scopesRule)
        .default([]),
      exchange_endpoints: z
        .array(z.string(endpointsRule).max(2_048, endpointsRule).refine(isIssuer, endpointsRule), endpointsRule)
        .max(16, endpointsRule)
        .default([]),
    },
    rule('an object'),
  )
  .refine(({ new_users, email_domains }) => new_users !== 'create' || email_domains.length > 0, {
    ...createRule,
    path: ['email_domains'],
  })

const smtpText = () => z.string(textRule).min(1, textRule).max(512, textRule).optional()
const smtp = z
  .strictObject(
    {
      host: smtpText().describe('Mail server that invitations are sent through. Without it, links are only printed.'),
      port: wholeNumber(587, 1, 65_535, 'Port of the mail server.'),
      user: smtpText().describe('User name for the mail server. Without it, Castellan does not authenticate there.'),
      password: smtpText().meta(secret).describe('Password of that user. Accepts `env:NAME`.'),
      from: z
        .string(rule('an e-mail address'))
        .regex(/^[^\s<>,;:"]{1,64}@[^\s<>,;:"]{1,255}$/, rule('an e-mail address'))
        .optional()
        .describe('Address that mails come from.'),
      tls: z
        .enum(['starttls', 'implicit', 'none'], rule('one of starttls, implicit, none'))
        .default('starttls')
        .describe(
          '`starttls` requires TLS after the connection, `implicit` speaks it from the start (port 465), `none` is for a server on this machine.',
        ),
    },
    rule('an object'),
  )
  .prefault({})
  .describe('Mail, for invitations.')

/** How people come in, beside their password. */
export const peopleFields = {
  smtp,
  oidc_providers: z
    .array(provider, listRule)
    .max(16, listRule)
    .refine((entries) => new Set(entries.map(({ id }) => id)).size === entries.length, listRule)
    .default([])
    .describe(
      'OpenID Connect providers that people sign in with. Each: `id`, `name` (on the button), `issuer`, `client_id`, `client_secret` as `env:NAME`, `tenant` (the organisation of its people, `local`), `new_users` (`invited` admits users and people with an open invitation, `create` everybody of `email_domains`), `default_role` (of people that are created, `member`), `email_domains` (others are refused; empty for all), `assume_email_verified` (for a provider that verifies every e-mail address and does not say so; one that says an address is not verified is still believed), `scopes` (asked for beside `openid email profile`; `offline_access` for tokens that can be renewed) and `exchange_endpoints` (token endpoints at which the tokens of people may be exchanged for those of MCP servers; only with one are tokens kept, encrypted, while the session lasts). Register `/auth/callback/ID` of this server there.',
    ),
}

/** Tokens and keys of the provider come from there, so it is spoken to by TLS, unless it is on this machine. */
function isIssuer(text: string): boolean {
  const url = URL.parse(text)
  if (url === null || url.search !== '' || url.hash !== '' || url.username !== '') return false
  return (
    url.protocol === 'https:' ||
    (url.protocol === 'http:' && /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(url.hostname))
  )
}
