// Passkeys: a form with data-passkey lets the browser make ("create") or use ("get") one, and sends what it signed.
// What to sign comes from the script element that data-options names, or from the form's own address.
(() => {
  "use strict";

  const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
  const text = (buffer) => {
    let binary = "";
    for (const byte of new Uint8Array(buffer)) binary += String.fromCharCode(byte);
    return btoa(binary).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  };
  const readList = (list) => (list || []).map((item) => ({ ...item, id: bytes(item.id) }));

  function creation(options, alone) {
    const made = { ...options, challenge: bytes(options.challenge), user: { ...options.user, id: bytes(options.user.id) } };
    made.excludeCredentials = readList(options.excludeCredentials);
    made.authenticatorSelection = { ...options.authenticatorSelection };
    if (alone !== null) {
      made.authenticatorSelection.residentKey = alone ? "required" : "discouraged";
      made.authenticatorSelection.requireResidentKey = alone;
      if (alone) made.authenticatorSelection.userVerification = "required";
    }
    return made;
  }

  function request(options) {
    return { ...options, challenge: bytes(options.challenge), allowCredentials: readList(options.allowCredentials) };
  }

  function written(credential) {
    const response = credential.response;
    const parts = { clientDataJSON: text(response.clientDataJSON) };
    for (const name of ["attestationObject", "authenticatorData", "signature", "userHandle"]) {
      if (response[name]) parts[name] = text(response[name]);
    }
    if (response.getTransports) parts.transports = response.getTransports();
    return {
      id: credential.id,
      rawId: text(credential.rawId),
      type: credential.type,
      authenticatorAttachment: credential.authenticatorAttachment,
      clientExtensionResults: credential.getClientExtensionResults(),
      response: parts,
    };
  }

  async function optionsOf(form) {
    if (form.dataset.options) return JSON.parse(document.getElementById(form.dataset.options).textContent);
    const answer = await fetch(form.action, { headers: { Accept: "application/json" }, credentials: "same-origin" });
    if (!answer.ok) throw new Error(`The server answers ${answer.status}.`);
    return answer.json();
  }

  async function credentialFor(form) {
    const options = await optionsOf(form);
    if (form.dataset.passkey === "create") {
      const box = form.querySelector("input[name=passwordless]");
      const publicKey = creation(options.creation_options.publicKey, box ? box.checked : null);
      return navigator.credentials.create({ publicKey });
    }
    return navigator.credentials.get({ publicKey: request(options.request_options.publicKey) });
  }

  function say(form, message) {
    const place = form.querySelector("[data-passkey-problem]");
    place.hidden = !message;
    place.lastElementChild.textContent = message;
  }

  const WHY = {
    NotAllowedError: "The browser got no passkey: it was declined, took too long, or there is none for this site.",
    InvalidStateError: "This device holds a passkey of yours for this site already.",
    SecurityError: "The browser allows no passkeys at this address: it needs https, or localhost, and a name in place of numbers.",
  };

  for (const form of document.querySelectorAll("form[data-passkey]")) {
    const button = form.querySelector("[data-passkey-go]");
    button.hidden = !window.PublicKeyCredential;
    button.addEventListener("click", async (event) => {
      event.preventDefault();
      say(form, "");
      button.disabled = true;
      try {
        const credential = await credentialFor(form);
        form.querySelector("input[name=credential]").value = JSON.stringify(written(credential));
        form.submit();
      } catch (error) {
        say(form, WHY[error.name] || String(error.message || error));
        button.disabled = false;
      }
    });
  }
})();
