/**
 * The one script of our pages: asks the browser for a passkey, which no form can do. It serves the form with `data-passkey`,
 * which stays hidden unless the browser supports passkeys.
 */
export const PASSKEY_SCRIPT = `
const form = document.querySelector('form[data-passkey]')
if (form && window.PublicKeyCredential?.parseRequestOptionsFromJSON) {
  form.hidden = false
  const problem = form.querySelector('[role=alert]')
  const isNew = form.dataset.passkey === 'register'
  const ask = async (path, body) => {
    const headers = { 'content-type': 'application/json' }
    const response = await fetch(path, { method: 'POST', headers, body: JSON.stringify(body) })
    const answer = await response.json()
    if (!response.ok) throw Object.assign(new Error(answer.error.message), { isOurs: true })
    return answer
  }
  // What the browser says of itself is not for people, and is in its own language.
  const problems = {
    NotAllowedError: isNew
      ? 'No passkey was added: the request was cancelled or took too long. Try again.'
      : 'No passkey was used: the request was cancelled or took too long, or there is none for this server. Try again, or sign in another way.',
    InvalidStateError: 'This device already has a passkey for this account.',
    SecurityError: 'The browser allows no passkeys at this address. Use the host name of the server with HTTPS, or localhost.',
    TypeError: 'The server cannot be reached. Try again.',
  }
  const problemOf = ({ name, isOurs, message }) =>
    isOurs ? message : (problems[name] ?? 'The browser could not use a passkey (' + name + '). Try again.')
  form.addEventListener('submit', async (event) => {
    event.preventDefault()
    problem.hidden = true
    try {
      const path = new URL(form.action).pathname
      const fields = Object.fromEntries(new FormData(form))
      const options = await ask(path + '/options', {})
      const credential = isNew
        ? await navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options) })
        : await navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options) })
      const { location } = await ask(path, { ...fields, response: credential.toJSON() })
      window.location.assign(location)
    } catch (error) {
      problem.textContent = problemOf(error)
      problem.hidden = false
    }
  })
}
`
