// The interactive page of the API, drawn by Swagger UI from this service's own description.
"use strict";
SwaggerUIBundle({ url: "/openapi.json", dom_id: "#api", deepLinking: true, validatorUrl: null, defaultModelsExpandDepth: 0 });
